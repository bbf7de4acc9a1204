"""The gradient computation of a training step as compiled by XLA, read from its HLO text; nothing is executed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hpcai.core.files import write_atomically
from hpcai.parsers.hlo.module import UNKNOWN
from hpcai.parsers.hlo.text import read_hlo_text
from hpcai.parsers.hlo.traffic import Traffic, read_traffic
from hpcai.parsers.reading import Reading

if TYPE_CHECKING:
    from hpcai.training.workload import Workload

Stage = Literal["hlo", "optimized_hlo"]
SUBSTITUTED = (
    "a sparse matrix times a dense one, which XLA lacks, is replaced by gather, product and segment sum: "
    "no dot before and none after"
)
OPTIMISED = "after the compiler's optimisation"
ASKED = "before optimisation, as requested, without unused operations"
HIDDEN = "before optimisation, without unused operations, because the optimised form hides work"
GROUPED = (
    "before optimisation, without unused operations: XLA for processors turns the kernels' gradients of "
    "depthwise convolutions (batch_group_count) into dense ones and keeps only their diagonal"
)
UNFUSED = "the memory traffic is not modelled: the step was requested before optimisation, where nothing is fused"
DENSE = "the traffic includes the dense gradients that XLA for processors makes of those of depthwise kernels"


@dataclass(frozen=True)
class StepReading:
    """Findings about a compiled step.

    Attributes
    ----------
    readings
        Convolutions and dots by stage.
    used, why
        The stage whose work counts, and the reason for the choice.
    traffic
        Modelled memory traffic of the optimised form, whichever stage's work counts.
    """

    readings: Mapping[Stage, Reading]
    used: Stage
    why: str
    traffic: Traffic


class CompiledStep:
    """Loss and gradients of one micro-batch, without exchange and optimizer.

    The model is built, so its weights occupy memory; the batch is abstract and does not.

    Parameters
    ----------
    workload
        What is trained. Its plan must have one rank, so that there is no exchange.
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

    def read(self, folder: Path, stage: Stage) -> StepReading:
        """Write the text to a folder and return its content.

        Parameters
        ----------
        folder
            Receives one file per compiled stage.
        stage
            ``hlo`` skips optimisation; otherwise its result counts, unless it hides the work. Memory traffic always
            belongs to the optimised form.

        Raises
        ------
        ValueError
            If XLA cannot compile an operation.
        """
        folder.mkdir(parents=True, exist_ok=True)
        plain = self._read_stage(folder, "hlo")
        if stage == "hlo":
            return StepReading({"hlo": plain}, "hlo", ASKED, Traffic(UNKNOWN, UNKNOWN, UNFUSED))
        optimised = self._read_stage(folder, "optimized_hlo")
        traffic = read_traffic(optimised.source)
        if (plain.table["batch_groups"] > 1).any():
            told = replace(traffic, reason="; ".join(filter(None, (DENSE, traffic.reason))))
            return StepReading({"hlo": plain}, "hlo", GROUPED, told)
        readings: dict[Stage, Reading] = {"hlo": plain, "optimized_hlo": optimised}
        if optimised.is_whole:
            return StepReading(readings, "optimized_hlo", OPTIMISED, traffic)
        return StepReading(readings, "hlo", f"{HIDDEN}: {optimised.reasons[0]}", traffic)

    def _read_stage(self, folder: Path, stage: Stage) -> Reading:
        path = folder / f"{stage}.txt"
        self.write(path, stage)
        return read_hlo_text(path)


@contextmanager
def _compilable_operations(used: set[str]) -> Iterator[None]:
    """Replace operations that XLA lacks by equivalent ones while a function is traced.

    Parameters
    ----------
    used
        Receives descriptions of the replacements.
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
