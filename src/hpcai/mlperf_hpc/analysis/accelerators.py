"""Published rates of accelerators, so that predictions cover models without a submission."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.core.units import to_si
from hpcai.mlperf_hpc.analysis.system_families import name_family

TABLE = "accelerators.yaml"
UNKNOWN_ACCELERATOR = Message(
    "accelerators.unknown_accelerator",
    "--accelerator: found {found!r}, whose published rates are not in accelerators.yaml, expected one of: {known}",
)


@dataclass(frozen=True)
class Accelerator:
    """Rates as published by the vendor (method: declared).

    Attributes
    ----------
    peak_flop_per_s
        Highest dense rate of 16 or 32 bit arithmetic.
    memory_bytes_per_s, link_bytes_per_s
        Per device; links count both directions together.
    source
        The vendor's document.
    """

    peak_flop_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    source: str

    @property
    def rates(self) -> tuple[float, float, float]:
        """The three rates, in the order of :data:`RATES`."""
        return self.peak_flop_per_s, self.memory_bytes_per_s, self.link_bytes_per_s


RATES = ("peak", "memory", "link")


@cache
def read_accelerators() -> Mapping[str, Accelerator]:
    """Return the declared accelerators by the name of their family."""
    text = resources.files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    units = dict(zip(RATES, ("FLOP/s", "byte/s", "byte/s"), strict=True))
    found = {}
    for name, entry in yaml.safe_load(text).items():
        peak, memory, link = (to_si(entry[rate], unit) for rate, unit in units.items())
        found[name] = Accelerator(peak, memory, link, entry["source"])
    return found


def find_accelerator(model: str) -> str:
    """Return the family of a model, in any spelling.

    Raises
    ------
    ConfigError
        If its rates are not declared.
    """
    known = {name.casefold(): name for name in read_accelerators()}
    family = known.get(name_family(model).casefold())
    if family is None:
        raise ConfigError(UNKNOWN_ACCELERATOR(found=model, known=", ".join(known.values())))
    return family
