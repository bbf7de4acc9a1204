"""Run by 4 ranks in 2 groups: each group's batch normalisation must be that of one rank with the group's samples."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np

from hpcai.config.runs import Point
from hpcai.core.lean_imports import NEEDLESS, without

with without(*NEEDLESS):
    import keras
    import tensorflow as tf

    from hpcai.training import collective
    from hpcai.training.batch_norm import BatchNormalization

SETTINGS = {"momentum": 0.9, "epsilon": 1e-5}


def step(layer: keras.Layer, inputs: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs and the gradient of sum(weights x outputs) with respect to the inputs."""
    values = tf.constant(inputs, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs = layer(values, training=True)
        total = tf.reduce_sum(outputs * weights)
    return outputs.numpy(), tape.gradient(total, values).numpy()


def main() -> None:
    point = Point(benchmark="test", variant="test", nodes=1, ranks_per_node=4, batchnorm_group=2)
    ranks = collective.start(point)
    random = np.random.default_rng(3)
    inputs, weights = random.normal(2, 3, (2, 4, 3, 5, 5, 2)).astype(np.float32)  # (rank, sample, y, x, channel)
    first = ranks.rank // 2 * 2
    grouped, alone = BatchNormalization(2, **SETTINGS, name="norm"), BatchNormalization(1, **SETTINGS)
    outputs, gradient = step(grouped, inputs[ranks.rank], weights[ranks.rank])
    joined = [np.concatenate(part[first : first + 2]) for part in (inputs, weights)]
    expected_outputs, expected_gradient = step(alone, *joined)
    own = slice(3 * (ranks.rank - first), 3 * (ranks.rank - first) + 3)
    np.testing.assert_allclose(outputs, expected_outputs[own], atol=1e-4)
    # Horovod's gradient of a mean over the group is the mean of the gradients: each rank's loss counts a half.
    np.testing.assert_allclose(gradient, expected_gradient[own], atol=2e-4)
    np.testing.assert_allclose(grouped.moving_mean.numpy(), alone.moving_mean.numpy(), atol=1e-5)
    np.testing.assert_allclose(grouped.moving_variance.numpy(), alone.moving_variance.numpy(), rtol=1e-4)
    print("as one rank", flush=True)
    collective.barrier()  # the first rank that stops takes the groups of all others away
    collective.stop()


if __name__ == "__main__":
    main()
