"""Read one measured run with its MLPerf log."""

from collections.abc import Iterable
from pathlib import Path

from hpcai.core.errors import ConfigError, ParseError, RecordError
from hpcai.core.messages import Message, at
from hpcai.mlperf_hpc.analysis.own_clock import timed_by_record
from hpcai.mlperf_hpc.analysis.own_runs import read_own_log
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.mlperf_hpc.submission.model import SubmittedRun
from hpcai.records.run import RunRecord

SEVERAL_FILES = Message(
    "run_files.several_files",
    "found runs of {files} for {result}, expected one benchmark file for a result; name one with --benchmark",
)

LOG = "mllog.txt"


def read_submitted_run(results: Path, folder: Path, record: RunRecord) -> SubmittedRun:
    """Return a run with its log, if any; without its times if the log contradicts the record.

    Parameters
    ----------
    results
        Results folder of the study.
    folder
        Folder of the run, ``rN`` or ``iN``.
    record
        Its record.

    Raises
    ------
    RecordError
        If its log cannot be read.
    """
    source, log, number = folder.relative_to(results).as_posix(), folder / "raw" / LOG, int(folder.name[1:])
    try:
        content = read_own_log(record, log)
        logged = timed_by_record(read_run(content, f"{source}/raw/{LOG}", number), record) if content else None
    except ParseError as error:
        raise RecordError(f"{error}; put the run aside with `hpcai discard {folder} --reason WHY`") from error
    return SubmittedRun(record, source, number, log if content else None, logged)


def require_one_file(results: Path, place: str, records: Iterable[RunRecord]) -> None:
    """Refuse a result whose runs come from several benchmark files.

    Raises
    ------
    ConfigError
        Names the files.
    """
    files = sorted({record.plan.benchmark.name for record in records})
    if len(files) > 1:
        raise ConfigError(at(str(results), SEVERAL_FILES(files=" and ".join(files), result=place)))
