"""Read 24 Darshan logs of one job, compared with PyDarshan's own summary of each, interleaved.

The summary runs inside one process, so its imports count once; on the command line, each log pays for them again. A
bare read of all records through PyDarshan's report is shown as well; it is unguarded and not a summary.
"""

import argparse
import contextlib
import io
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from hpcai.metrics.profiles.io import IoSetting, io_summary
from hpcai.parsers.darshan.log import read_darshan_logs

PROFILES = Path(os.environ.get("HPCAI_PROFILES", Path(__file__).resolve().parents[2] / "shared/data/profiles"))
DATA = "/grand/projects/radix-io/usr/snyder/dlio/train"
LOGS, BLOCKS = 24, 3
GOAL = 20.0


def main() -> None:
    """Measure both alternately and print the ratio."""
    warnings.simplefilter("ignore")
    published = sorted((PROFILES / "darshan/dlio_job").glob("*.darshan"))
    if not published:
        print(f"not measured: no logs in {PROFILES / 'darshan/dlio_job'}; set HPCAI_PROFILES to the folder of samples")
        return
    logs = list(islice(cycle(published), LOGS))
    ours_s, summary_s, bare_s = [], [], []
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-") as name:
        page = Path(name) / "summary.html"
        import_s, summarise = timed(lambda: _summary(page))
        for block in range(BLOCKS):
            ours_s.append(timed(lambda: read_job(logs))[0])
            part = logs[block::BLOCKS]
            summary_s.append(timed(lambda part=part: [summarise(log) for log in part])[0])
            bare_s.append(timed(lambda part=part: [read_bare(log) for log in part])[0])
    ours, theirs, bare = statistics.median(ours_s), import_s + sum(summary_s), import_s + sum(bare_s)
    print(f"{LOGS} logs: {ours:.2f} s (median of {BLOCKS}; {min(ours_s):.2f} to {max(ours_s):.2f})")
    print(f"PyDarshan's summary of each: {theirs:.1f} s ({sum(summary_s) / LOGS:.2f} s a log)")
    print(f"PyDarshan's report with all records of each: {bare:.1f} s, {bare / ours:.1f} x")
    print(f"  summary / ours: {theirs / ours:.1f} x (goal {GOAL:g})")


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.monotonic()
    result = action()
    return time.monotonic() - started_s, result


def read_job(logs: Sequence[Path]) -> None:
    """Read the job from its start to the row of its report, including all checks and the start of the child process."""
    reading = read_darshan_logs(logs, DATA)
    row = io_summary(reading.table, IoSetting(page_cache="cold"))
    assert row["workers"] == 8, row


def _summary(page: Path) -> Callable[[Path], None]:
    """Return a function that writes PyDarshan's summary of one log."""
    from darshan.cli import summary

    parser = argparse.ArgumentParser()
    summary.setup_parser(parser)

    def summarise(log: Path) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            summary.main(parser.parse_args([str(log), "--output", str(page)]))

    return summarise


def read_bare(log: Path) -> None:
    import darshan

    report = darshan.DarshanReport(str(log), read_all=True)
    assert report.records


if __name__ == "__main__":
    main()
