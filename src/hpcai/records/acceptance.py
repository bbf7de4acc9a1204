"""The record of a machine's acceptance: what was measured, the verdicts, and whether a run may rely on them."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.config.acceptance import Acceptance
from hpcai.core.errors import RecordError, RunRefusedError
from hpcai.core.files import file_sha256
from hpcai.core.messages import Message, Said
from hpcai.records.files import read_part
from hpcai.records.run import AcceptanceNote

Kind = Literal["node", "accelerator", "pair", "ring", "machine"]
Unit = Literal["FLOP/s", "B/s", "s", "samples/s"]
Verdict = Literal["healthy", "suspicious", "broken", "not_measured"]
FOLDER = Path("results/acceptance")
MEASURED, JUDGED = "measurements.json", "acceptance.json"
AGAIN = "snakemake acceptance --forcerun measure_acceptance"
CLOCKS_APART_S = 120.0
"""Clocks of nodes may differ by this much."""
NONE_YET = Message(
    "acceptance.none_yet",
    "{path}: cannot be read ({why}), but requires_acceptance of the study demands a passed acceptance of "
    "{machine}; run `snakemake acceptance`",
)
OTHER_MACHINE = Message(
    "acceptance.other_machine", "{path}: found the acceptance of {found}, expected that of {machine}; run `{again}`"
)
NOT_PASSED = Message(
    "acceptance.not_passed",
    "{path}: the machine is {verdict}, expected healthy; `hpcai acceptance` says why. Repair it, then run `{again}`",
)
TOO_OLD = Message(
    "acceptance.too_old",
    "{path}: {age_h:.1f} h old, expected at most {most_h:.1f} h (requires_acceptance of the study); run `{again}`",
)
OTHER_NODES = Message(
    "acceptance.other_nodes", "{path}: {nodes} not accepted, but the run would use it; accept all nodes with `{again}`"
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Series(_Part):
    """The repetitions of one measurement of one subject, or why there are none."""

    kind: Kind
    subject: str = Field(description="Node, accelerator of a node, pair or ring.")
    nodes: tuple[str, ...] = Field(min_length=1)
    measure: str = Field(description="Subjects of one kind are compared by measurements of one name.")
    unit: Unit
    values: tuple[float, ...] = Field(default=(), description="All above 0; empty: not measured.")
    in_passes: bool = Field(
        default=False, description="Whether value k of every subject comes from the same pass over all of them."
    )
    setting: str = ""
    reason: str = Field(default="", description="Why there are no values.")
    failed: bool = Field(default=False, description="Whether the measurement failed, not merely had nothing to do.")
    tried: bool = Field(
        default=True, description="Whether it was begun: what had no time, or no data, says nothing about the subject."
    )


class Measured(_Part):
    """Everything that an acceptance measured."""

    schema_version: Literal[1] = 1
    machine: str
    machine_nodes: int = Field(ge=1, description="Nodes of the machine file.")
    hosts: tuple[str, ...] = Field(min_length=1)
    launcher: str
    slurm_job: str = Field(description="Blank: no job.")
    started_utc: str
    ended_utc: str
    settings: Acceptance
    code: dict[str, str | bool | None] = Field(description="Commit, whether it was changed, and lock file.")
    series: tuple[Series, ...]


class Finding(_Part):
    """One row of the table: one measurement of one subject, or the verdict over all of them."""

    kind: Kind
    subject: str
    measure: str
    verdict: Verdict
    value: float | None
    unit: str
    n: int
    fleet_median: float | None
    fleet_n: int
    loss_ratio: float | None
    spread_ratio: float | None
    noise_ratio: float | None
    score: float | None
    p_value: float | None
    test: str
    reason: str
    setting: str
    method: Literal["measured", ""]
    source: str


class Accepted(_Part):
    """The verdict on a machine, with those on its nodes and pairs."""

    schema_version: Literal[1] = 1
    machine: str
    machine_nodes: int = Field(ge=1)
    hosts: tuple[str, ...]
    verdict: Literal["healthy", "suspicious", "broken"] = Field(
        description="The worst of all; of several nodes without a measured link at least suspicious."
    )
    reason: str = Field(description="What limits the verdict, such as the lack of a fleet, and what was not measured.")
    started_utc: str
    ended_utc: str
    slurm_job: str
    measurements_sha256: str = Field(description="Of the file of the measurements.")
    settings: Acceptance
    findings: tuple[Finding, ...]


def utc_now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def require_accepted(
    machine: str, hosts: Collection[str], most_age_s: float, path: Path = FOLDER / JUDGED
) -> AcceptanceNote:
    """Return the acceptance that a run relies on.

    Parameters
    ----------
    machine, hosts
        Name of the machine file, and the nodes of the run.
    most_age_s
        Largest age [s].
    path
        The judged acceptance.

    Raises
    ------
    RunRefusedError
        If there is none, it was not passed, is too old, or lacks one of the nodes.
    """
    try:
        found, digest = read_part(Accepted, path), file_sha256(path)
    except (RecordError, OSError) as error:
        why = str(error).removeprefix(f"{path}: ").partition(";")[0]
        raise RunRefusedError(NONE_YET(path=path, why=why, machine=machine)) from error
    age_s = _age_s(found)
    if refusal := _refusal(found, machine, hosts, (age_s, most_age_s), path):
        raise RunRefusedError(refusal)
    return AcceptanceNote(file=str(path), sha256=digest, ended_utc=found.ended_utc, age_s=age_s)


def is_young(found: Accepted, most_age_s: float) -> bool:
    """Return whether an acceptance is at most so old [s]; one from the future, by a wrong clock, is not."""
    return -CLOCKS_APART_S <= _age_s(found) <= most_age_s


def _age_s(found: Accepted) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(found.ended_utc)).total_seconds()


def _refusal(
    found: Accepted, machine: str, hosts: Collection[str], ages_s: tuple[float, float], path: Path
) -> Said | None:
    age_s, most_s = ages_s
    if found.machine != machine:
        return OTHER_MACHINE(path=path, found=found.machine, machine=machine, again=AGAIN)
    if found.verdict != "healthy":
        return NOT_PASSED(path=path, verdict=found.verdict, again=AGAIN)
    if not is_young(found, most_s):
        return TOO_OLD(path=path, age_h=age_s / 3600, most_h=most_s / 3600, again=AGAIN)
    if missing := sorted(set(hosts) - set(found.hosts)):
        return OTHER_NODES(path=path, nodes=", ".join(missing), again=AGAIN)
    return None
