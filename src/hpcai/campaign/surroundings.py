"""State around the measurements: the controller, Snakemake's locks and markers, data, disks and the report."""

import shutil
import socket
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from hpcai.campaign.controller_note import Controller, PlannedDataset
from hpcai.config.machine import scratch_path
from hpcai.measure.claim_holder import Life, life_here, life_in_slurm
from hpcai.records.files import RECORD

LITTLE_SPACE_BYTES = 1 << 30
"""Free space below which a disk counts as full: records and logs of a few large runs may not fit."""
REPORT = "report.html"
TABLE = "tables/runs.parquet"
ControllerState = Literal["alive", "ended", "elsewhere", "unknown"]


@dataclass(frozen=True)
class Space:
    """Free space at an output location; None if it is not visible from here, with a reason."""

    what: str
    place: str
    free_bytes: int | None
    reason: str = ""

    @property
    def is_full(self) -> bool:
        """Whether there is too little space to continue."""
        return self.free_bytes is not None and self.free_bytes < LITTLE_SPACE_BYTES


def controller_state(controller: Controller | None, working_folder: Path) -> ControllerState:
    """Return whether a workflow is active in a folder; elsewhere: on another host, whose processes are not visible."""
    if _workflows_here(working_folder):
        return "alive"
    if controller is None:
        return "unknown"
    life = life_here(controller.holder)
    if life == "unknown":
        life = life_in_slurm(controller.holder)
    states: dict[Life, ControllerState] = {"alive": "alive", "gone": "ended", "ended": "ended", "unknown": "elsewhere"}
    return states[life]


def _workflows_here(working_folder: Path) -> list[int]:
    """Return Snakemake's controlling processes of a folder; those inside jobs have the option --nolock."""
    found = []
    for process in psutil.process_iter():
        try:
            if _leads_workflow(process.cmdline()) and Path(process.cwd()) == working_folder.resolve():
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def _leads_workflow(command: Sequence[str]) -> bool:
    program = Path(command[0]).name if command else ""
    if not program.startswith(("python", "snakemake")) or "--nolock" in command:
        return False
    names = [Path(part).name for part in command[:4]]
    # A script of that name, or a module.
    return "snakemake" in names[:3] or names[1:3] == ["-m", "snakemake"] or names[2:4] == ["-m", "snakemake"]


def is_locked(working_folder: Path) -> bool:
    """Return whether a workflow has locked its working folder."""
    return any((working_folder / ".snakemake" / "locks").glob("*.lock"))


def incomplete_files(working_folder: Path) -> list[str]:
    """Return existing files that were still being written when their job or the workflow ended."""
    folder = working_folder / ".snakemake" / "incomplete"
    names = (_unmarked(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if name and (working_folder / name).exists())


def _unmarked(marker: Path) -> str:
    """Return the file behind a Snakemake marker: its base64 name, long ones in parts that begin with @."""
    coded = "".join(part.removeprefix("@") for part in marker.parts)
    try:
        return urlsafe_b64decode(coded).decode()
    except ValueError:
        return ""


def missing_data(datasets: Iterable[PlannedDataset], working_folder: Path) -> list[str]:
    """Return the missing manifests of data and packed data."""
    files = (file for dataset in datasets for file in dataset.files())
    return [file for file in files if not (working_folder / file).exists()]


def spaces(results: Path, node_local: str | None) -> tuple[Space, ...]:
    """Return the free space of the results, and of the scratch folder on this node."""
    found = [_space("results", str(results))]
    if node_local is not None:
        found.append(_scratch(node_local))
    return tuple(found)


def _scratch(node_local: str) -> Space:
    place = scratch_path(node_local)
    if "$" in place:
        return Space("scratch", node_local, None, "its variable is not set here")
    folder = next((path for path in (Path(place), *Path(place).parents) if path.exists()), Path("/"))
    return _space(f"scratch on {socket.gethostname()}", str(folder))


def _space(what: str, place: str) -> Space:
    try:
        return Space(what, place, shutil.disk_usage(place).free)
    except OSError as error:
        return Space(what, place, None, error.strerror or "cannot be read")


def report_problem(results: Path, names: Iterable[str]) -> str:
    """Describe missing tables or report, or those older than a record; blank if there are none."""
    every = list(names)
    timed = [name for name in every if not name.startswith("profiles/")]  # the table of runs excludes profiled runs
    for part, shown in ((TABLE, timed), (REPORT, every)):
        path, newest = results / part, max(_changed(results, shown), default=None)
        if not path.exists():
            return f"{path}: not written yet"
        if newest is not None and path.stat().st_mtime < newest[0]:
            return f"{path}: older than {newest[1]}"
    return ""


def _changed(results: Path, names: Iterable[str]) -> Iterator[tuple[float, Path]]:
    for name in names:
        path = results / name / RECORD
        try:
            yield path.stat().st_mtime, path
        except OSError:
            continue
