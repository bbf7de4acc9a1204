"""Data model of the list: entries with their numbers, evidence and verdicts, machines, and editions.

The JSON files of a site have this form; `data/schema.json` is generated from these models.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
Basis = Literal["measured", "published", "declared"]
"""measured: own runs with raw files, checked here; published: logs of others, judged here; declared: numbers alone."""
Data = Literal["official", "other"]
"""official: the benchmark's own dataset; other: generated or changed data, which no list ranks beside official data."""
Scaling = Literal["strong", "weak"]
Unit = Literal["accelerator", "processor", "node", "process"]
"""What a result counts its machine by: accelerators, or what stands for them on a machine without any."""
RankingKind = Literal["vflops", "vflops_per_watt", "time_to_train", "weak_throughput", "throughput_per_unit"]
Value = str | int | float | bool | None
Word = Annotated[str, Field(max_length=2000)]
NOT_VALID = "not valid"
"""Status of a result that breaks its rules; pages mark it, and it is best at nothing."""
EDITION = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
"""Name of an edition: year and month."""
DRAFT = "draft"
"""Name of the edition that may still change."""
_NO_SLUG = re.compile(r"[^a-z0-9]+")


class Part(BaseModel):
    """A frozen part of the list, without unknown keys, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Number(Part):
    """One number with its unit, its interval and its origin."""

    quantity: str = Field(description="Column name with its unit at the end, such as time_to_train_s.")
    unit: str
    value: float
    low: float | None = Field(default=None, description="Lower bound; None without an interval.")
    high: float | None = Field(default=None, description="Upper bound; None without an interval.")
    interval: Word = Field(default="", description="Meaning of the bounds; blank without an interval.")
    least: float | None = Field(default=None, description="Smallest value of its runs; None if they are not given.")
    most: float | None = Field(default=None, description="Largest value of its runs; None if they are not given.")
    n: int | None = Field(default=None, description="Runs behind the value; None if not stated.")
    method: Word = Field(description="How it was obtained: which runs, which mean, which rule; or that it is declared.")
    source: Word = Field(description="File or document that holds it.")


class Reason(Part):
    """Why something was refused, or a finding that does not affect the verdict."""

    code: str = Field(description="Stable code, such as verdict.not_accepted.")
    text: Word
    place: Word = Field(default="", description="File or field; blank if it concerns the whole.")
    severity: Literal["failure", "warning"] = "failure"


class Verdict(Part):
    """What the checks found."""

    status: Literal["valid", "not valid", "not judged"] = Field(
        description="not judged: no rules exist for this round, or only numbers are declared."
    )
    judge: Word = Field(description="Program and version that judged; blank if none did.")
    rule_set: str = Field(default="", description="Such as 3.0.0 or HPC AI500 V2.0; blank if not judged.")
    label: Word = Field(default="", description="One sentence on the validity.")
    checked: tuple[Word, ...] = Field(default=(), description="What was checked here, one sentence each.")
    reasons: tuple[Reason, ...] = ()


class File(Part):
    """A file of evidence."""

    path: Word = Field(description="Relative to the submission.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class Run(Part):
    """One run behind an entry, failed ones included."""

    name: Word
    outcome: Word
    counted: bool = Field(description="Whether the numbers of the entry use it.")
    time_s: float | None = Field(default=None, description="Time of the run by its rules [s]; None if it has none.")
    samples_per_s: float | None = Field(default=None, description="Training throughput [1/s]; None if it has none.")
    epochs: float | None = None
    complies: bool | None = Field(default=None, description="None: not judged.")
    reason: Word = ""


class Check(Part):
    """One part of the reproducibility score."""

    name: Word
    points: float = Field(ge=0, description="Points of the run that has fewest.")
    most: float = Field(gt=0, description="Points to be had.")
    reason: Word = Field(default="", description="What would raise it; blank at full points.")

    @property
    def met(self) -> bool:
        """Whether it has all points."""
        return self.points == self.most


class Reproducibility(Part):
    """How much of what others need to repeat a result is in its records."""

    score: float = Field(ge=0, le=100, description="Sum of the points of all parts.")
    checks: tuple[Check, ...]
    method: Word

    @property
    def score_ratio(self) -> float:
        """Share of all points."""
        return self.score / 100


class MachineNumber(Number):
    """What is known of a machine besides its results, by the rule of the list that asks for it."""

    title: Word = Field(description="What it is, such as HPL or memory bandwidth, copy.")
    rule: Word = Field(default="", description="How the number is defined; blank if it is not stated.")
    setting: Word = Field(default="", description="What it was measured with, such as the order of the matrix.")
    remark: Word = Field(default="", description="What limits its meaning; blank if nothing is known to.")


class NotMeasured(Part):
    """What a list of machines asks for and nobody measured on this one."""

    title: Word
    reason: Word = Field(description="Why there is no value, and what would give it.")


class Machine(Part):
    """A machine as described by the submissions that ran on it; None and blanks are not stated."""

    id: str = Field(description="Stable: from organisation and name.")
    name: Word
    organisation: Word
    accelerator: Word = Field(default="", description="Model as written.")
    processor: Word = ""
    family: Word = Field(default="", description="Accelerator, or processor without one, in a spelling shared by all.")
    facts: tuple[tuple[Word, Value], ...] = Field(default=(), description="Further facts as written, by name.")
    numbers: tuple[MachineNumber, ...] = Field(default=(), description="Besides results: HPL, memory, storage, power.")
    not_measured: tuple[NotMeasured, ...] = ()


class Entry(Part):
    """One result."""

    id: str = Field(pattern=r"^[a-z0-9-]{1,100}$", description="Stable: from the identity, never from numbers.")
    title: Word
    basis: Basis
    suite: Literal["hpc_ai500", "mlperf_hpc"]
    round: Word = Field(description="Round, study or document, such as v0.7.")
    benchmark: Word
    benchmark_title: Word = Field(default="", description="Readable name of the benchmark, which the key stands for.")
    workload: Word
    dataset: Word
    data: Data
    division: Word = Field(description="closed, open, or a level of HPC AI500; blank if there is none.")
    scaling: Scaling = "strong"
    organisation: Word
    machine: str = Field(description="Identifier of the machine.")
    system: Word = Field(description="Name of the system in the submission.")
    variant: Word = ""
    nodes: int | None = None
    scale: Word = Field(default="", description="Scale in its study, such as n2x4; blank if it is no study's.")
    units: int | None = Field(
        default=None,
        description="Accelerators; of a machine without them processors in published rounds, nodes of own runs, and "
        "processes in declared results.",
    )
    unit: Unit = Field(default="accelerator", description="What `units` counts.")
    accelerator: Word = Field(default="", description="Model that it computed on: accelerator, or processor.")
    family: Word = Field(default="", description="The model in a spelling shared by all.")
    year: int | None = Field(default=None, description="Year of the newest run, or of the document.")
    quality_metric: Word = ""
    quality_target: float | None = None
    rules: Word = Field(default="", description="What else a comparable result shares: clock, exponent, work.")
    numbers: tuple[Number, ...]
    runs: tuple[Run, ...] = ()
    runs_by_rule: int | None = None
    runs_sha256: str = Field(default="", description="Equal for runs that were submitted again; blank if unknown.")
    settings: tuple[tuple[Word, Value], ...] = ()
    verdict: Verdict
    evidence: tuple[File, ...] = ()
    reproducibility: Reproducibility | None = Field(default=None, description="None: not measured.")
    no_reproducibility: Word = Field(default="", description="Why the score is not measured; blank with a score.")
    repeat: Word = Field(default="", description="How to repeat it: command or document; blank if unknown.")
    submission: Word = Field(description="Name of the submission that contains it.")
    added: date | None = Field(default=None, description="Day on which it entered the list.")

    def number(self, quantity: str) -> Number | None:
        """Return the number of a quantity; None without one."""
        for number in self.numbers:  # called for every entry of every list: a generator takes twice as long
            if number.quantity == quantity:
                return number
        return None

    @property
    def per_unit(self) -> float | None:
        """Training throughput of one unit [1/s]; None if either is unknown."""
        rate = self.number("train_rate_samples_per_s")
        return rate.value / self.units if rate and self.units else None


class Refusal(Part):
    """A submission, or one of its results, that failed a check: listed apart, never dropped."""

    id: str
    submission: Word
    place: Word = Field(description="The result or file concerned; blank for the whole submission.")
    reasons: tuple[Reason, ...] = Field(min_length=1)


class Prediction(Part):
    """A prediction of an entry from other results, beside what was measured."""

    entry: str = Field(description="Identifier of the entry that was predicted.")
    number: Number = Field(description="The prediction with its interval.")
    measured: Number = Field(description="The same quantity as it was measured or published.")
    made_from: Word = Field(description="The earlier results that it uses.")


class Place(Part):
    """One line of a list."""

    entry: str
    place: int | None = Field(description="None: listed without a place, because it is not valid.")


class Ranking(Part):
    """Comparable results in order: same benchmark, data, target, division, basis and measure."""

    id: str = Field(pattern=r"^[a-z0-9-]{1,100}$")
    title: Word
    kind: RankingKind
    quantity: str
    unit: str
    better: Literal["lower", "higher"]
    benchmark: Word
    benchmark_title: Word = Field(default="", description="Readable name of the benchmark.")
    dataset: Word
    data: Data
    division: Word
    basis: Basis
    quality_target: float | None
    rules: Word
    judged: bool = Field(description="False: no rules exist, so no place was judged.")
    places: tuple[Place, ...]


class Edition(Part):
    """The whole list at one time."""

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^(draft|\d{4}-(0[1-9]|1[0-2]))$", description="Such as 2026-11, or draft.")
    title: Word
    made: date
    url: Word = Field(default="", description="Where the site is; blank if unknown.")
    entries: tuple[Entry, ...]
    machines: tuple[Machine, ...]
    refused: tuple[Refusal, ...]
    rankings: tuple[Ranking, ...]
    predictions: tuple[Prediction, ...] = ()
    earlier: tuple[str, ...] = Field(default=(), description="Frozen editions of the site, oldest first.")

    @property
    def frozen(self) -> bool:
        """Whether this edition never changes."""
        return self.name != DRAFT

    @cached_property
    def by_id(self) -> Mapping[str, Entry]:
        """Entries by identifier."""
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def machines_by_id(self) -> Mapping[str, Machine]:
        """Machines by identifier."""
        return {machine.id: machine for machine in self.machines}

    @cached_property
    def benchmark_titles(self) -> Mapping[str, str]:
        """Readable names of all benchmarks by key; the key itself without one."""
        return {entry.benchmark: entry.benchmark_title or entry.benchmark for entry in reversed(self.entries)}

    @property
    def organisations(self) -> Mapping[str, str]:
        """Names of all organisations by identifier, sorted by name."""
        names = sorted({entry.organisation for entry in self.entries}, key=str.casefold)
        return {make_id(name): name for name in names}


class Change(Part):
    """One changed field of an entry that two editions hold."""

    entry: str
    field: str
    before: Value
    after: Value


class Difference(Part):
    """What changed between two editions."""

    before: str
    after: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Change, ...]


def make_id(*parts: str) -> str:
    """Return a stable identifier of up to 60 readable characters and 10 of a digest, safe in paths and addresses.

    The digest is of the parts as given, so names that differ only in case or marks have different identifiers.
    """
    words = _NO_SLUG.sub("-", "-".join(part for part in parts if part).lower()).strip("-")[:60].strip("-")
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{words}-{digest}" if words else digest


def cite_edition(edition: Edition) -> str:
    """Return how to cite an edition."""
    address = f" {edition.url}" if edition.url else ""
    return f"{edition.title}, edition {edition.name}, {edition.made.isoformat()}.{address}"


def cite_entry(edition: Edition, entry: Entry) -> str:
    """Return how to cite an entry, with its identifier and edition."""
    address = f" {edition.url.rstrip('/')}/result/{entry.id}.html" if edition.url else ""
    return (
        f"{entry.organisation}: {entry.title} ({entry.round}), entry {entry.id}. In: {edition.title}, edition "
        f"{edition.name}, {edition.made.isoformat()}.{address}"
    )


def sort_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return entries in the order of all files: by identifier."""
    return tuple(sorted(entries, key=lambda entry: entry.id))
