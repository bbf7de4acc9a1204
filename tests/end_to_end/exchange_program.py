"""Run by 3 ranks: what they exchange in a step must be the mean, and the same on all ranks to the last bit."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np

from hpcai.core.lean_imports import NEEDLESS, without

with without(*NEEDLESS):
    import tensorflow as tf

    from hpcai.training import collective

RANKS = 3
NUMBERS = np.array([[1e38, 0.1, 70_000.0], [1e38, 1 / 3, -1.0], [-2e37, 1e-30, 2.0**-20]], np.float32)
"""Of each rank; most of them are none in half precision."""
SHAPES = ((3, 5), (), (4096,))


def check(rank: int, compression: str, groups: int) -> None:
    gradients = [
        np.stack([np.random.default_rng([seed, number]).normal(size=shape) for seed in range(RANKS)]).astype(np.float32)
        for number, shape in enumerate(SHAPES)
    ]

    @tf.function(autograph=False)
    def exchange(own: list[tf.Tensor], numbers: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        return collective.mean_of_gradients(own, numbers, compression, groups)

    for _ in range(3):
        means, numbers = exchange([tf.constant(parts[rank]) for parts in gradients], tf.constant(NUMBERS[rank]))
        np.testing.assert_allclose(numbers, NUMBERS.astype(np.float64).mean(axis=0), rtol=1e-6)
        for mean, parts in zip(means, gradients, strict=True):
            assert mean.dtype == tf.float32
            rounding = 1e-6 if compression == "none" else 4e-3
            np.testing.assert_allclose(mean, parts.astype(np.float64).mean(axis=0), atol=rounding)
        together = np.concatenate([np.ravel(part) for part in (*means, numbers)])
        everywhere = collective.gather(together.view(np.uint8), "together")
        assert (everywhere == everywhere[0]).all()


def main() -> None:
    ranks = collective.start()
    assert ranks.size == RANKS
    for compression in ("none", "fp16"):
        for groups in (0, 1, 2, 3):
            check(ranks.rank, compression, groups)
    print("the same mean", flush=True)
    collective.stop()


if __name__ == "__main__":
    main()
