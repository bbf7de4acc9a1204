"""The note that a workflow leaves at its start: who started it, how to restart it, and its plan."""

import os
import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.campaign.run_options import repeatable
from hpcai.catalogue.profiles import PROFILES
from hpcai.config.plans import Campaign
from hpcai.config.runs import Point, ProfileKind
from hpcai.core.errors import RecordError
from hpcai.measure.claim_holder import Holder, this_process
from hpcai.records.files import read_part, write_json

NOTE = "campaign.json"
KEPT_STARTS = 20
UTC = "%Y-%m-%dT%H:%M:%SZ"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class PlannedPoint(_Part):
    """One point of the study, and how often it is measured."""

    kind: Literal["timed", "profiled", "weak"]
    profile: ProfileKind | None = None
    benchmark: str
    variant: str
    scale: str
    nodes: int = Field(ge=1, description="Of each run, or of each instance.")
    ranks: int = Field(ge=1)
    repetitions: int = Field(ge=1, description="Runs, or instances of a weak-scaling group.")
    run_limit_s: float = Field(gt=0, description="After this time a run is ended: the study's limits.run_s.")

    def folders(self) -> Iterator[str]:
        """Yield the folders of its runs, or of its group, below the results folder."""
        point = f"{self.benchmark}/{self.variant}/{self.scale}"
        if self.kind == "weak":
            yield f"weak/{point}"
        elif self.kind == "profiled":
            yield from (f"profiles/{self.profile}/{point}/r{number}" for number in range(1, self.repetitions + 1))
        else:
            yield from (f"runs/{point}/r{number}" for number in range(1, self.repetitions + 1))


class PlannedDataset(_Part):
    """One dataset of the study."""

    name: str
    packed: bool

    def files(self) -> tuple[str, ...]:
        """Return its manifests, relative to the working folder."""
        manifest = f"data/{self.name}/manifest.json"
        return (manifest, f"data/{self.name}/packed/packed.json") if self.packed else (manifest,)


class Planned(_Part):
    """The plan of a study."""

    study: str
    points: tuple[PlannedPoint, ...] = Field(description="Empty for a study that only analyses (measure: false).")
    datasets: tuple[PlannedDataset, ...]
    node_local: str = Field(description="The machine file's storage.node_local.")


class Controller(_Part):
    """The process that runs the workflow; its facts are those of :class:`hpcai.measure.claim_holder.Holder`."""

    host: str
    pid: int
    process_started: float | None
    slurm_job: str = ""
    slurm_restart: int = 0
    started_utc: str = ""
    slurm_cluster: str = ""
    pid_space: str = ""
    slurm_run_id: str = Field(default="", description="Name of all Slurm jobs of this start; blank: not known.")

    @property
    def holder(self) -> Holder:
        """The process as a holder that can be looked up."""
        return Holder(**self.model_dump(exclude={"slurm_run_id"}))


class Start(_Part):
    """One start of the workflow."""

    command: tuple[str, ...]
    host: str
    started_utc: str


class Note(_Part):
    """The content of ``campaign.json``."""

    schema_version: Literal[1] = 1
    command: tuple[str, ...] = Field(description="As it was given.")
    targets: tuple[str, ...] = Field(default=(), description="Those of its words that are targets; empty: everything.")
    working_folder: str = Field(description="Relative to the results folder.")
    started_utc: str
    controller: Controller
    planned: Planned
    earlier: tuple[Start, ...] = Field(default=(), description="Earlier starts, the oldest first.")

    @property
    def repeated(self) -> tuple[str, ...]:
        """The words that restart the workflow: the command without what was meant for that start alone."""
        return (*self.command[:1], *repeatable(self.command[1:]))

    @property
    def shown_command(self) -> str:
        """The command line that restarts the workflow, quoted for a shell."""
        return shlex.join(self.repeated)

    def command_with(self, *options: str, targets: bool = True) -> str:
        """Return the command that restarts it with more options; without its targets, it builds everything."""
        words = self.repeated if targets else _without(self.repeated, self.targets)
        # Words after -- are not options.
        place = words.index("--") if "--" in words else len(words)
        return shlex.join([*words[:place], *options, *words[place:]])


def _without(command: tuple[str, ...], targets: tuple[str, ...]) -> tuple[str, ...]:
    """Remove the targets from a command line if they form one block; if in doubt, leave it unchanged."""
    if not targets:
        return command
    places = [
        place
        for place in range(1, len(command) - len(targets) + 1)
        if set(command[place : place + len(targets)]) == set(targets)
    ]
    # The same words may be values of an option such as --prioritize, but not directly after the program.
    if 1 not in places and len(places) != 1:
        return command
    return (*command[: places[0]], *command[places[0] + len(targets) :])


def this_controller(slurm_run_id: str = "") -> Controller:
    """Return the facts about this process, and the name of its Slurm jobs if known."""
    return Controller(**this_process().to_json(), slurm_run_id=slurm_run_id)


def planned_by(campaign: Campaign) -> Planned:
    """Return the plan of a checked study."""
    study = campaign.study
    points: list[PlannedPoint] = []
    if study.measure:
        points += [_point(campaign, row, "timed", row.repeats) for row in campaign.rows]
        points += [
            _point(campaign, plan.point, "profiled", 1, profile)
            for profile in PROFILES
            for plan in campaign.profiles(profile).values()
        ]
        points += [_point(campaign, row, "weak", row.instances) for row in campaign.weak_rows]
    datasets = (PlannedDataset(name=name, packed=benchmark.is_packed) for name, benchmark in campaign.datasets.items())
    return Planned(
        study=study.name,
        points=tuple(points),
        datasets=tuple(datasets),
        node_local=campaign.machine.storage.node_local,
    )


def _point(
    campaign: Campaign,
    point: Point,
    kind: Literal["timed", "profiled", "weak"],
    repetitions: int,
    profile: ProfileKind | None = None,
) -> PlannedPoint:
    return PlannedPoint(
        kind=kind,
        profile=profile,
        benchmark=point.benchmark,
        variant=point.variant,
        scale=point.scale,
        nodes=point.nodes,
        ranks=point.ranks,
        repetitions=repetitions,
        run_limit_s=campaign.study.limits.run_s,
    )


def write_note(
    campaign: Campaign,
    results: Path,
    command: Sequence[str],
    controller: Controller,
    targets: Collection[str] = (),
) -> Note:
    """Write ``results/campaign.json`` atomically, keeping the earlier starts.

    Parameters
    ----------
    campaign
        The checked study.
    results
        Results folder; created if missing.
    command
        Command line of the workflow as its process received it; programs are named without their path.
    controller
        The process that runs the workflow, before Snakemake's executor removed Slurm's variables.
    targets
        Targets of the command line, as Snakemake parses it; empty for everything.
    """
    results.mkdir(parents=True, exist_ok=True)
    note = Note(
        command=_repeatable(command),
        targets=tuple(dict.fromkeys(word for word in command[1:] if word in targets)),
        working_folder=os.path.relpath(Path.cwd(), results.resolve()),
        started_utc=time.strftime(UTC, time.gmtime()),
        controller=controller,
        planned=planned_by(campaign),
        earlier=_earlier(results),
    )
    write_json(note, results / NOTE)
    return note


def _repeatable(command: Sequence[str]) -> tuple[str, ...]:
    program = Path(command[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return (name, *command[1:])


def _earlier(results: Path) -> tuple[Start, ...]:
    try:
        before = read_note(results)
    except RecordError:
        return ()
    if before is None:
        return ()
    last = Start(command=before.command, host=before.controller.host, started_utc=before.started_utc)
    return (*before.earlier, last)[-KEPT_STARTS:]


def read_note(results: Path) -> Note | None:
    """Read the note of a results folder; None if there is none.

    Raises
    ------
    RecordError
        If it is damaged.
    """
    path = results / NOTE
    if not path.exists():
        return None
    try:
        return read_part(Note, path)
    except RecordError as error:
        raise RecordError(
            f"{path}: damaged or of another version; the next start of the workflow writes it anew "
            f"({str(error).splitlines()[-1].strip()})"
        ) from error
