"""Tables of the kind ``io``: reads of a profiled run from shared storage and of the training input.

Where Darshan is not, they come from what the ranks counted (`hpcai.profiles.io.input_reads`).
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import input_bytes, read_pack
from hpcai.data.stage_folder import every_stage
from hpcai.metrics.profiles.io import IoSetting, PageCache, data_module, io_summary, io_workers
from hpcai.parsers.darshan.log import read_darshan_files, read_darshan_logs
from hpcai.parsers.reading import Reading
from hpcai.profiles.io import DARSHAN
from hpcai.profiles.io.input_reads import input_stages, staging_reads, training_reads
from hpcai.profiles.io.read_times import with_wall_times
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view, join_views
from hpcai.records.files import RAW
from hpcai.records.input_window import TOOL

STAGING, TRAINING_INPUT = "staging", "training input"

NOBODY_READ = Message(
    "io.nobody_read",
    "{folder}: Darshan recorded no reads of the data; see darshan.conf and output.log in raw/",
)
FEWER_LOGS = Message(
    "io.fewer_logs",
    "{folder}: found Darshan's logs of {found} ranks that read the training input, expected {ranks}; profile the run "
    "again",
)


@dataclass(frozen=True)
class Data:
    """One data folder read by the ranks: its role, bytes needed per epoch, and whether it was cached."""

    role: str
    folder: Path
    bytes: float
    page_cache: PageCache


def io_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the views ``io`` (one row per data folder) and ``io_workers`` (one per process).

    The epoch time is omitted, because that of a profiled run would not count.
    """
    return _watched_views(profile) if profile.capture.tool == TOOL else _darshan_views(profile)


def _watched_views(profile: Profile) -> dict[str, pd.DataFrame]:
    seen, workers = [], []
    for data in _folders(profile):
        read = staging_reads if data.role == STAGING else training_reads
        row, own = read(profile, IoSetting(data.page_cache, data.bytes))
        source = f"{profile.folder / RAW}"
        seen.append(profile.with_identity(row.assign(data=data.role, tool=TOOL), source))
        workers.append(profile.with_identity(own.assign(data=data.role), source))
    stages = profile.with_identity(input_stages(profile), f"{profile.folder / RAW}")
    return {
        "io": join_views("io", seen),
        "io_workers": join_views("io_workers", workers),
        "input_stages": as_view("input_stages", stages),
    }


def _darshan_views(profile: Profile) -> dict[str, pd.DataFrame]:
    logs = profile.files(".darshan")
    seen, workers = [], []
    for data in _folders(profile):
        root, reading = _read(logs, data.folder)
        files = read_darshan_files(logs, root).table
        module = data_module(reading.table)
        if data.role == TRAINING_INPUT:
            _require_all_ranks(profile, reading.table, logs[0].parent)
        processes, untraced = with_wall_times(reading.table, logs, root, module)
        setting = IoSetting(
            page_cache=data.page_cache,
            dataset_bytes=data.bytes,
            files=files.loc[files["module"] == module, "file"].nunique(),
            coverage_ratio=reading.coverage_ratio,
            reasons=(*reading.reasons, *untraced),
        )
        row = pd.DataFrame([{"data": data.role, "tool": DARSHAN, **io_summary(processes, setting, module)}])
        seen.append(profile.with_identity(row, logs[0].parent))
        workers.append(profile.with_identity(io_workers(processes, module).assign(data=data.role), logs[0].parent))
    if not any(len(part) for part in workers):
        raise ParseError(NOBODY_READ(folder=logs[0].parent))
    return {
        "io": join_views("io", seen),
        "io_workers": join_views("io_workers", workers),
        "input_stages": as_view("input_stages", []),
    }


def _require_all_ranks(profile: Profile, processes: pd.DataFrame, folder: Path) -> None:
    """Refuse logs of a part of the ranks, whose bytes and rates would be taken for those of all.

    Without MPI each rank writes a log; with it there is one log of all. A log has a row for each module and rank.
    """
    workers = processes[processes["is_worker"].fillna(value=False)].drop_duplicates("log")
    found, ranks = int(workers["processes"].sum()), profile.plan.point.ranks
    if 0 < found < ranks:
        raise ParseError(FEWER_LOGS(folder=folder, found=found, ranks=ranks))


def _read(logs: list[Path], folder: Path) -> tuple[str, Reading]:
    """Return the folder as named by the ranks, links resolved or not, and the reads below it."""
    names = list(dict.fromkeys(str(path) for path in (folder.absolute(), folder.resolve())))
    for name in names:
        reading = read_darshan_logs(logs, name)
        if name == names[-1] or reading.table["is_worker"].fillna(value=False).any():
            break
    return name, reading


def _folders(profile: Profile) -> list[Data]:
    """Return the data folders as named by the ranks; just staged data is in the page cache."""
    command, origin = profile.record.provenance.command, profile.record.provenance
    options = dict(pairwise(command))
    cache: PageCache = "cold" if origin.page_cache == "dropped" else "unknown"
    manifest_path = Path(options["--manifest"])
    if "--pack" in options:
        folder, packed = Path(options["--pack"]).parent, read_pack(Path(options["--pack"]))
        if profile.plan.benchmark.staging.place == "none":  # packed data, used for training in place
            shards_bytes = input_bytes(packed, "train", staged=False)
            return [Data(TRAINING_INPUT, folder, float(shards_bytes), cache)]
        content_bytes = input_bytes(packed, "train", staged=True)
        return [
            Data(STAGING, folder, float(packed.packed_bytes), cache),
            Data(TRAINING_INPUT, every_stage(Path(options["--scratch"])), float(content_bytes), "warm"),
        ]
    manifest = read_manifest(manifest_path)
    stored_bytes = float(manifest.files("train").total("bytes"))
    return [Data(TRAINING_INPUT, manifest.root(manifest_path), stored_bytes, cache)]
