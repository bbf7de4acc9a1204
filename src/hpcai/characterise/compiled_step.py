"""The gradient computation of a training step as XLA compiles it, written out as HLO text; nothing is executed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hpcai.files import write_atomically

if TYPE_CHECKING:
    from hpcai.training.workload import Workload

Stage = Literal["hlo", "optimized_hlo"]
SUBSTITUTED = (
    "a sparse matrix times a dense one, which XLA does not know, is written as gather, product and sum of segments: "
    "no dot before and none after"
)


class CompiledStep:
    """Loss and gradients of one micro-batch, without exchange and optimizer.

    The model is built, so its weights take up memory; the batch is abstract and does not.

    Parameters
    ----------
    workload
        What is trained. Its plan must be of one rank, so that nothing has to be exchanged.
    """

    def __init__(self, workload: "Workload[Any]") -> None:
        import tensorflow as tf

        from hpcai.training.workload import seed_streams

        model = workload.build_model(seed_streams(1, 0))
        variables = [variable.value for variable in model.trainable_variables]

        def step(*batch: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
            with tf.GradientTape() as tape:
                loss = workload.loss(model, batch, tf.constant([1, 2], tf.int32))
            return tape.gradient(loss, variables), loss

        # Variables live as long as the function that captures them.
        self._model = model
        self.substituted: set[str] = set()
        with _compilable_operations(self.substituted):
            self._text = tf.function(step, jit_compile=True, autograph=False).experimental_get_compiler_ir(
                *workload.batch_spec()
            )

    def write(self, path: Path, stage: Stage) -> None:
        """Write the HLO text of a stage.

        Raises
        ------
        ValueError
            If XLA cannot compile an operation; TensorFlow's message names it.
        """
        write_atomically(path, self._text(stage=stage, platform_name="CPU").encode())


@contextmanager
def _compilable_operations(used: set[str]) -> Iterator[None]:
    """Replace operations without a kernel in XLA by the same from others while a function is traced.

    Parameters
    ----------
    used
        Gets the description of what was replaced.
    """
    import tensorflow as tf

    original = tf.sparse.sparse_dense_matmul

    def product(matrix: tf.SparseTensor, values: tf.Tensor) -> tf.Tensor:
        used.add(SUBSTITUTED)
        terms = tf.gather(values, matrix.indices[:, 1]) * matrix.values[:, None]
        return tf.math.unsorted_segment_sum(terms, matrix.indices[:, 0], matrix.dense_shape[0])

    tf.sparse.sparse_dense_matmul = product
    try:
        yield
    finally:
        tf.sparse.sparse_dense_matmul = original
