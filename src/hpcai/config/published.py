"""Published or declared results of others: the content of a file in `config/published/`, and its reader.

Nothing here is computed: a number missing in the source stays absent, even if others imply it. Inputs and derived
printed numbers are kept apart: the inputs are fields; the derived numbers are
listed under `printed`, with the tolerance within which they should be reproduced.
"""

import math
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from hpcai.config.base import Compression, Count, Name, Settings, Text
from hpcai.config.benchmark import Suite
from hpcai.config.machine import Peak, Precision
from hpcai.config.printed import Found, Positive, Printed, Sentence
from hpcai.config.reading import Problems, read_yaml, validate
from hpcai.config.workloads import BENCHMARKS
from hpcai.core.units import BytesPerSecond, FlopPerSecond, Seconds


class Citation(Settings):
    """The document that contains the numbers."""

    document: Sentence
    date: date
    url: Text = ""


class OtherPeak(Peak):
    """Another peak that a source gives for the same device: kept and shown, never used."""

    precision: Precision


class PublishedLink(Settings):
    """A link as described in the source."""

    bandwidth_bytes_per_s: BytesPerSecond = Field(description="Nominal.")
    directions: Literal[1, 2] = Field(default=1, description="2: the nominal number is the sum of both directions.")
    measured_bytes_per_s: BytesPerSecond | None = Field(default=None, description="Rate that one direction reached.")
    source: Sentence


class PublishedCeiling(Settings):
    """A measured kernel rate on one node, and the source's printed rates for several nodes."""

    name: Name
    precision: Precision
    node_flop_per_s: FlopPerSecond
    nodes: Count
    where: Sentence
    printed: tuple[Printed, ...] = ()


class PublishedMachine(Settings):
    """Facts about a machine from a source; everything except its title is optional."""

    title: Sentence
    device: Text = ""
    nodes: Count | None = None
    devices_per_node: Count | None = None
    peaks: dict[Precision, Peak] = Field(default={}, description="Of one device; declared, never inferred.")
    other_peaks: tuple[OtherPeak, ...] = ()
    memory_bandwidth_bytes_per_s: BytesPerSecond | None = None
    intra_node: PublishedLink | None = None
    network: PublishedLink | None = None
    ceilings: tuple[PublishedCeiling, ...] = ()
    note: Text = ""

    def devices_of(self, nodes: int | None, processes: int | None) -> int | None:
        """Return the devices that processes use: one each, but no more than the nodes have as far as that is told."""
        if processes is None or nodes is None or self.devices_per_node is None:
            return processes
        return min(processes, nodes * self.devices_per_node)


def _is_known_workload(name: str) -> str:
    if name not in BENCHMARKS:
        raise ValueError(f"one of {', '.join(BENCHMARKS)}")
    return name


class PublishedWorkload(Settings):
    """A workload as used in the source, with separate work per step, batch and parameters (Table 5 mixes them)."""

    workload: Annotated[str, AfterValidator(_is_known_workload)]
    suite: Suite
    dataset: Sentence = Field(description='The dataset with its origin, such as "imagenet (official)".')
    quality_metric: Name
    quality_target: Positive
    exponent: Positive | None = Field(default=None, description="The n of VFLOPS; absent where none is defined.")
    flop_per_sample: Positive | None = Field(default=None, description="Work of training on one sample [FLOP].")
    flop_per_step: Positive | None = Field(default=None, description="Work of one step of one process [FLOP].")
    samples_per_step: Count | None = Field(default=None, description="Batch of one process.")
    parameters: Positive | None = None
    profiled_flop: Positive | None = None
    profiled_samples: Count | None = None
    train_samples: Positive | None = None
    epochs: Positive | None = None
    printed: tuple[Printed, ...] = ()
    note: Text = ""


class Derivation(Settings):
    """A rate given in parts: the rate of another result, an efficiency and a gain."""

    against: Name
    efficiency_ratio: Positive = 1.0
    gain_ratio: Positive = 1.0


class PublishedResult(Settings):
    """One result; every number is optional."""

    name: Name
    title: Text = ""
    workload: Name = Field(description="A key of `workloads`.")
    machine: Name = Field(description="A key of `machines`.")
    use: Literal["result", "check"] = Field(
        default="result", description="check: a computed value for `printed`, not an actual result."
    )
    nodes: Count | None = None
    ranks: Count | None = None
    precision: Precision | None = None
    compression: Compression | None = Field(default=None, description="Absent: not stated in the source.")
    train_rate_samples_per_s: Positive | None = Field(default=None, description="Of all processes together.")
    train_rate_samples_per_s_per_process: Positive | None = None
    rate_flop_per_s: FlopPerSecond | None = None
    vflops_flop_per_s: FlopPerSecond | None = None
    derived: Derivation | None = None
    quality: Positive | None = Field(default=None, description="Quality stated as reached; never derived.")
    time_to_quality_s: Seconds | None = None
    mean_power_w: Positive | None = None
    where: Sentence
    found: Found = "source"
    printed: tuple[Printed, ...] = ()
    note: Text = ""

    @model_validator(mode="after")
    def _says_each_thing_once(self) -> "PublishedResult":
        keys = (
            "train_rate_samples_per_s", "train_rate_samples_per_s_per_process", "rate_flop_per_s", "derived",
        )  # fmt: skip
        given = [key for key in keys if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"one of {', '.join(given)}: state the others as printed values, they are compared")
        if self.train_rate_samples_per_s_per_process is not None and self.ranks is None:
            raise ValueError("a throughput per process needs 'ranks', the number of processes")
        return self


class QualityGain(Settings):
    """A gain of quality in absolute points, and the factor by which it reportedly raises VFLOPS."""

    name: Name
    workload: Name
    base_quality: Positive
    gain: Positive = Field(description="Absolute, in the unit of the quality: 0.45 points are 0.0045.")
    where: Sentence
    printed: tuple[Printed, ...] = ()


Share = Annotated[float, Field(gt=0, le=1)]


class Breakdown(Settings):
    """A published breakdown of time: times of its parts, or shares of the whole, with "other" for the rest."""

    name: Name
    title: Sentence
    parts_s: dict[str, Seconds] = Field(default={}, description="Time of each part; their sum is the whole.")
    part_shares: dict[str, Share] = Field(default={}, description="Ratios of the whole, where no times are given.")
    waits: tuple[str, ...] = Field(default=(), description="Parts spent waiting.")
    exchange: tuple[str, ...] = Field(default=(), description="Parts that move data between devices.")
    instructions_per_cycle: dict[str, Positive] = Field(default={}, description="Of the parts that it is given for.")
    dram_utilisation: dict[str, Positive] = Field(default={}, description="The profiler's scale of 0 to 10.")
    device_busy_ratio: Share | None = Field(default=None, description="Overall utilisation of the devices.")
    where: Sentence
    printed: tuple[Printed, ...] = ()
    note: Text = ""

    @model_validator(mode="after")
    def _names_its_parts(self) -> "Breakdown":
        if bool(self.parts_s) == bool(self.part_shares):
            raise ValueError("either 'parts_s' or 'part_shares'")
        named = [*self.waits, *self.exchange, *self.instructions_per_cycle, *self.dram_utilisation]
        unknown = sorted(set(named) - set(self.shares))
        if unknown:
            raise ValueError(f"no such part: {', '.join(unknown)}; the parts are {', '.join(self.shares)}")
        return self

    @property
    def total_s(self) -> float | None:
        """The total time [s]; None if only shares are given."""
        return math.fsum(self.parts_s.values()) if self.parts_s else None

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part, as given or from the times."""
        total_s = self.total_s
        return {name: time_s / total_s for name, time_s in self.parts_s.items()} if total_s else dict(self.part_shares)


class Published(Settings):
    """A file of published or declared results."""

    name: Name
    title: Sentence
    citation: Citation
    note: Text = ""
    machines: dict[Name, PublishedMachine]
    workloads: dict[Name, PublishedWorkload]
    results: tuple[PublishedResult, ...]
    gains: tuple[QualityGain, ...] = ()
    breakdowns: tuple[Breakdown, ...] = ()

    @model_validator(mode="after")
    def _names_exist(self) -> "Published":
        if not self.results:
            raise ValueError("at least one result")
        for group in ("results", "gains", "breakdowns"):
            names = [entry.name for entry in getattr(self, group)]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{group}: each name once, found twice: {', '.join(twice)}")
        entries: tuple[PublishedResult | QualityGain, ...] = (*self.results, *self.gains)
        for entry in entries:
            _known(entry.name, "workload", entry.workload, self.workloads)
        for breakdown in self.breakdowns:
            others = [printed.against for printed in breakdown.printed if printed.against]
            for other in others:
                _known(breakdown.name, "against", other, [each.name for each in self.breakdowns])
        for result in self.results:
            _known(result.name, "machine", result.machine, self.machines)
            others = [printed.against for printed in result.printed if printed.against]
            for other in [*others, *([result.derived.against] if result.derived else [])]:
                _known(result.name, "against", other, [each.name for each in self.results if each is not result])
        return self

    def result(self, name: str) -> PublishedResult:
        """Return the result with a given name."""
        return next(result for result in self.results if result.name == name)

    def cite(self, where: str) -> str:
        """Return the location of a number as one line."""
        return f"{self.citation.document}, {self.citation.date.isoformat()}: {where}"


def _known(entry: str, key: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ValueError(f"{entry}: {key}: found {name!r}; allowed: one of {', '.join(names)}")


def load_published(path: Path) -> Published:
    """Read and check a file of published results.

    Parameters
    ----------
    path
        A YAML file, see `config/published/`. Its `name` is the file's own name.

    Raises
    ------
    ConfigError
        Lists every error: file, dotted key, what was found, what is allowed.
    """
    problems = Problems()
    data = read_yaml(path, problems)
    published = None if problems.lines else validate(Published, data, str(path), problems)
    if published is not None and published.name != path.stem:
        problems.add(str(path), "name", published.name, f"the file's own name, {path.stem!r}")
    problems.raise_if_any()
    if published is None:
        raise AssertionError("a file without errors")
    return published
