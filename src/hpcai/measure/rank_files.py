"""Merge the files of all ranks into one per kind: shared file systems limit the number of files, too.

While ranks run, each writes ``ranks/rankN.json`` and ``resources_rankN.csv``, because they cannot append to a common
file. Afterwards these become ``ranks.json`` and ``resources.parquet``. Older folders keep the separate files; all
readers accept either form.
"""

import os
import re
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from pydantic import RootModel

from hpcai.core.errors import ParseError, RecordError
from hpcai.core.files import sync
from hpcai.core.table_files import open_parquet, read_parquet
from hpcai.records.files import read_part, write_json
from hpcai.records.run import RankReport

RANKS = "ranks"
REPORTS = "ranks.json"
RESOURCES = "resources.parquet"
_REPORT = re.compile(r"rank(\d+)\.json")
_SAMPLES = re.compile(r"resources_rank(\d+)\.csv")
_PARTIAL = ".partial"
_SAMPLE_TYPES = {
    "monotonic_s": pa.float64(),
    "rss_bytes": pa.int64(),
    "cpu_percent": pa.float64(),
    "read_bytes": pa.int64(),
    "written_bytes": pa.int64(),
}
_SCHEMA = pa.schema([("rank", pa.int32()), *_SAMPLE_TYPES.items()])
_GROUP_ROWS = 100_000
"""Rows written at once, which bounds memory for any number of ranks."""


class RankReports(RootModel[tuple[RankReport, ...]]):
    """The reports of a run's ranks, by rank."""


def gather_rank_files(attempt: Path) -> None:
    """Merge the rank files of an attempt; call this when no rank is alive.

    An original is deleted only after the merged file is safely stored. Damaged or incomplete files stay as they are,
    and so does everything if the merged file cannot be written. Repeated calls are harmless.

    Parameters
    ----------
    attempt
        Folder of the attempt.
    """
    # A failed merge must not lose a measurement: on a full disk the separate files serve as well.
    with suppress(OSError):
        _gather_reports(attempt)
    with suppress(OSError):
        _gather_samples(attempt)


def read_rank_reports(attempt: Path, ranks: int) -> tuple[RankReport, ...]:
    """Return the reports of ranks 0, 1, ... from one merged file or one file per rank.

    Parameters
    ----------
    attempt
        Folder of the attempt, or the raw folder of a published run.
    ranks
        Number of ranks that must have reported.

    Raises
    ------
    RecordError
        If a report is missing or damaged; names its file.
    """
    reports = _joined_reports(attempt)
    for rank in range(ranks):
        if rank not in reports:
            reports[rank] = read_part(RankReport, attempt / RANKS / f"rank{rank}.json")
    return tuple(reports[rank] for rank in range(ranks))


def _joined_reports(attempt: Path) -> dict[int, RankReport]:
    joined = attempt / REPORTS
    if not joined.exists():
        return {}
    return {report.placement.rank: report for report in read_part(RankReports, joined).root}


def _gather_reports(attempt: Path) -> None:
    """Merge the complete reports; a rank already in the merged file is not read again."""
    files = _files(attempt / RANKS, _REPORT)
    try:
        reports = _joined_reports(attempt)
    except RecordError:
        return
    read = {rank: report for rank, file in files.items() if (report := _report(file, rank))}
    if not read.keys() <= reports.keys():
        together = {**read, **reports}
        write_json(RankReports(tuple(together[rank] for rank in sorted(together))), attempt / REPORTS)
        sync(attempt / REPORTS)
    _remove(files[rank] for rank in read)
    with suppress(OSError):
        (attempt / RANKS).rmdir()


def _report(file: Path, rank: int) -> RankReport | None:
    try:
        report = read_part(RankReport, file)
    except RecordError:
        return None
    return report if report.placement.rank == rank else None


def _gather_samples(attempt: Path) -> None:
    files = _files(attempt, _SAMPLES)
    joined = attempt / RESOURCES
    if joined.exists():
        _remove(files[rank] for rank in _ranks_in(joined) & files.keys())
        return
    if not files:
        return
    partial = joined.with_name(RESOURCES + _PARTIAL)
    try:
        written = _write_samples(files, partial)
        if not written:
            return
        sync(partial)
        partial.replace(joined)
    finally:
        partial.unlink(missing_ok=True)
    _remove(files[rank] for rank in written)


def _write_samples(files: Mapping[int, Path], target: Path) -> list[int]:
    """Write the samples of all ranks with a complete file; return these ranks."""
    waiting: list[pa.Table] = []
    written = []
    rows = 0
    with open_parquet(target, _SCHEMA) as writer:
        for rank, file in sorted(files.items()):
            samples = _samples(file, rank)
            if samples is None:
                continue
            written.append(rank)
            waiting.append(samples)
            rows += samples.num_rows
            if rows >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return written


def _samples(file: Path, rank: int) -> pa.Table | None:
    """Return one rank's samples; None if the file ends within a line or has unexpected content."""
    content = file.read_bytes()
    if not content.endswith(b"\n"):
        return None
    options = pyarrow.csv.ConvertOptions(column_types=_SAMPLE_TYPES, strings_can_be_null=False)
    try:
        one_thread = pyarrow.csv.ReadOptions(use_threads=False)
        table = pyarrow.csv.read_csv(pa.BufferReader(content), one_thread, convert_options=options)
    except pa.ArrowInvalid:
        return None
    if table.column_names != list(_SAMPLE_TYPES):
        return None
    # `pa.array` and `pa.scalar` import pandas, which takes longer than all else here.
    numbers = pa.py_buffer(array("i", [rank]) * table.num_rows)
    ranks = pa.Array.from_buffers(pa.int32(), table.num_rows, [None, numbers])
    return table.add_column(0, "rank", ranks)


def _ranks_in(joined: Path) -> set[int]:
    try:
        return {int(rank) for rank in read_parquet(joined, ["rank"])["rank"].unique()}
    except ParseError:
        return set()


def _files(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """Return the files of a folder that belong to a rank, by rank."""
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208  also refreshes NFS caches
    return {int(match[1]): folder / name for name in names if (match := pattern.fullmatch(name))}


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
