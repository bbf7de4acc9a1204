"""Initial weights of the reference: He normal in Xception and pyramid, PyTorch's default everywhere else."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras

Rule = Callable[[int, int], keras.initializers.Initializer]
"""Fan-in and seed to an initializer."""


def he_normal(fan_in: int, seed: int) -> keras.initializers.Initializer:
    """Return a normal distribution of variance 2 / fan_in, not truncated (PyTorch, kaiming_normal_)."""
    return keras.initializers.RandomNormal(stddev=math.sqrt(2 / fan_in), seed=seed)


def pytorch_default(fan_in: int, seed: int) -> keras.initializers.Initializer:
    """Return a uniform distribution within 1 / sqrt(fan_in) of 0 (PyTorch, kaiming_uniform_ with a = sqrt 5).

    The reference's decoder defines its own initialisers but never calls them.
    """
    bound = 1 / math.sqrt(fan_in)
    return keras.initializers.RandomUniform(-bound, bound, seed=seed)


@dataclass(frozen=True)
class Start:
    """Initial values of one layer's variables."""

    rule: Rule
    seed: int

    def values(self, fan_in: int, variable: int = 0) -> keras.initializers.Initializer:
        """Return the initializer of a layer's n-th variable."""
        return self.rule(fan_in, self.seed + variable)
