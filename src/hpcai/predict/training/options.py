"""Numeric options of ``hpcai predict training``: convert text with its unit to fields of scenarios."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import ConfigError
from hpcai.core.units import to_si
from hpcai.predict.training.presets import Cluster

MOST_SCENARIOS = 10_000


@dataclass(frozen=True)
class Quantity:
    """A numeric option of the scenario.

    Attributes
    ----------
    parameter
        Field of `Scenario`, in SI units.
    unit
        Unit of the parsed text; empty for plain numbers.
    example
        Example for messages.
    factor
        Factor from this unit to that of the field.
    whole
        Whether only whole numbers are valid.
    """

    parameter: str
    unit: str
    example: str
    help: str
    factor: float = 1.0
    whole: bool = False

    def read(self, option: str, text: str) -> float:
        """Return a text as a number in the field's unit, or raise ConfigError."""
        try:
            value = to_si(text, self.unit) * self.factor if self.unit else float(text)
        except ValueError as error:
            raise ConfigError(f"--{option} {text!r} is not understood, write for example {self.example!r}") from error
        if not math.isfinite(value):
            raise ConfigError(f"--{option} {text!r} is not a finite number; write for example {self.example!r}")
        if self.whole and not value.is_integer():
            raise ConfigError(f"--{option} {text!r} is not a whole number; write for example {self.example!r}")
        return value


QUANTITIES = {
    "peak": Quantity("peak_flop_per_s", "FLOP/s", "19.5 TFLOP/s", "what a process computes at best"),
    "memory": Quantity("memory_bytes_per_s", "byte/s", "1555 GB/s", "what a process moves to and from memory at best"),
    "link": Quantity("link_bit_per_s", "byte/s", "200 Gbit/s", "one direction of a link of the ring", factor=8.0),
    "latency": Quantity("latency_s", "s", "1 us", "of one hop of the ring"),
    "nodes": Quantity("ranks", "", "100", "processes that train together", whole=True),
    "batch": Quantity("batch", "", "128", "samples of one process and step", whole=True),
    "precision-bytes": Quantity("precision_bytes", "", "4", "bytes of one number"),
    "compression": Quantity("compression_ratio", "", "0.5", "bytes sent over bytes of the gradients"),
    "spatial-parts": Quantity("spatial_parts", "", "4", "processes that share each sample", whole=True),
    "input": Quantity("input_s_per_sample", "s", "0.2 ms", "time of a process to prepare one sample"),
}
NEEDED = ("peak", "memory", "link", "latency", "nodes", "batch")
DEFAULTS = {"precision-bytes": 4.0, "compression": 1.0, "spatial-parts": 1.0, "input": 0.0}


def read_sweeps(texts: Iterable[str]) -> dict[str, list[float]]:
    """Return the values of each swept option.

    Parameters
    ----------
    texts
        As given to ``--sweep``, for example ``"nodes=1,8,64"``.

    Raises
    ------
    ConfigError
        If an option is unknown or repeated, a value is invalid, or there are too many combinations.
    """
    sweeps: dict[str, list[float]] = {}
    for text in texts:
        option, _, values = text.partition("=")
        if option not in QUANTITIES or not values:
            raise ConfigError(f"--sweep {text!r}: expected NAME=A,B,C with a name of {', '.join(QUANTITIES)}")
        if option in sweeps:
            raise ConfigError(f"--sweep {option} is given twice: give all its values at once")
        sweeps[option] = [QUANTITIES[option].read(option, value.strip()) for value in values.split(",")]
    number = math.prod(map(len, sweeps.values()))
    if number > MOST_SCENARIOS:
        raise ConfigError(f"{number} scenarios, expected at most {MOST_SCENARIOS}: sweep over fewer values")
    return sweeps


def read_quantities(
    given: Mapping[str, str], cluster: Cluster | None, sweeps: Mapping[str, object]
) -> dict[str, float]:
    """Return the value of each option that is not swept: its own, the preset's, or a default.

    Parameters
    ----------
    given
        Text of each option on the command line.
    cluster
        The preset, if any.
    sweeps
        Swept options.

    Raises
    ------
    ConfigError
        If a value is invalid, or a required one is missing.
    """
    values: dict[str, float] = {}
    for option, quantity in QUANTITIES.items():
        text = given.get(option)
        if option in sweeps:
            if text is not None:
                raise ConfigError(f"--{option} and --sweep {option} are both given: give one of them")
            continue
        preset = getattr(cluster, quantity.parameter, None)
        value = quantity.read(option, text) if text is not None else DEFAULTS.get(option) if preset is None else preset
        if value is not None:
            values[option] = value
    missing = [f"--{option}" for option in NEEDED if option not in values and option not in sweeps]
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing: give {'it' if len(missing) == 1 else 'them'}, or a --preset")
    return values


def combine(values: Mapping[str, float], sweeps: Mapping[str, list[float]]) -> dict[str, NDArray[np.float64]]:
    """Return the fields of all scenarios: every combination of the swept values."""
    points = np.array(list(product(*sweeps.values())), dtype=float)
    fixed = {QUANTITIES[option].parameter: np.full(len(points), value) for option, value in values.items()}
    return fixed | {QUANTITIES[option].parameter: points[:, column] for column, option in enumerate(sweeps)}


def read_samples(text: str | None, default: int | None) -> int | None:
    """Return the samples of an epoch, from the option or a default."""
    if text is None:
        return default
    if not (text.isdecimal() and int(text) > 0):
        raise ConfigError(f"--samples {text!r}: expected a whole number of at least 1")
    return int(text)
