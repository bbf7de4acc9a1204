"""Runs a real HPL on this machine: Debian's ``hpcc``, one test per start, watched for the cores it had.

``hpcc`` always runs all tests of HPC Challenge, HPL last; their size follows the order of the matrix. None can be
switched off, so that every start takes some seconds more than HPL itself (``start_s`` of each run).
"""

import logging
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import LaunchError, ParseError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.machine.hpl.input import NAME, HplTest, write_input
from hpcai.machine.hpl.library import PACKAGE, find_blas
from hpcai.machine.hpl.report import HplReport, HplRun, judge_run
from hpcai.machine.hpl.watch import watch_run
from hpcai.parsers.hpl import operations, read_hpl

__all__ = ["HplReport", "HplRun", "HplTest", "run_hpl"]

logger = logging.getLogger(__name__)
LONGEST_S = 900.0
ATTEMPTS = 3
"""A run without the cores to itself is done again so often; all of them stay in the report."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ROUNDING_S = 0.0051
"""The row of results has two decimals; the summary's time is the same one with more digits."""


@dataclass(frozen=True)
class _Times:
    use: float | None
    steal: float | None
    start_s: float


def run_hpl(tests: Sequence[Mapping[str, int]], raw_folder: Path, attempts: int = ATTEMPTS) -> str:
    """Run HPL for each test; return a :class:`HplReport` as JSON.

    Parameters
    ----------
    tests
        ``order``, ``block`` and, unless they are 1, ``process_rows`` and ``process_columns`` of each.
    raw_folder
        Keeps the whole output of each start, as ``hpccoutf-ORDER-BLOCK-ROWSxCOLUMNS-ATTEMPT.txt``.
    attempts
        Starts of a test until one of them had the cores to itself.
    """
    wanted = [HplTest.model_validate(dict(test)) for test in tests]
    blas, launcher = find_blas(), find_launcher()
    reason = blas.reason
    if not reason and launcher is None:
        reason = f"not measured: mpirun is not installed; Open MPI, which comes with {PACKAGE}"
    if reason or launcher is None:
        missing = tuple(HplRun(**test.model_dump(), reason=reason) for test in wanted)
        return HplReport(runs=missing, reason=reason).model_dump_json(indent=1)
    raw_folder.mkdir(parents=True, exist_ok=True)
    runs: list[HplRun] = []
    with machine_to_itself(logger.info):
        for test in wanted:
            runs += _try_test(test, launcher, raw_folder, attempts)
    report = HplReport(
        runs=tuple(runs),
        library=blas.name,
        library_path=blas.path,
        versions=_read_versions(launcher, [raw_folder / run.raw for run in runs if run.raw]),
    )
    return report.model_dump_json(indent=1)


def find_launcher() -> str | None:
    """Return Open MPI's launcher, against which Debian's ``hpcc`` is built."""
    return shutil.which("mpirun.openmpi") or shutil.which("mpirun")


def build_command(launcher: str, processes: int) -> list[str]:
    """Return the command of one start.

    Ranks are not bound: the launcher would bind those of every start to the same first cores, whoever is there.
    """
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [launcher, *as_root, "--bind-to", "none", "-np", str(processes), "hpcc"]


def _try_test(test: HplTest, launcher: str, raw_folder: Path, attempts: int) -> Iterator[HplRun]:
    cores = len(os.sched_getaffinity(0))
    if test.processes > cores:
        reason = f"not measured: {test.processes} processes on {cores} cores would wait for each other"
        yield HplRun(**test.model_dump(), reason=reason)
        return
    for attempt in range(1, attempts + 1):
        run = _run_once(test, launcher, raw_folder, attempt)
        logger.info("HPL %s, attempt %d: %s", test.words, attempt, run.reason or f"{run.measured_time_s:.2f} s")
        yield run
        if run.accepted:
            return


def _run_once(test: HplTest, launcher: str, raw_folder: Path, attempt: int) -> HplRun:
    command = build_command(launcher, test.processes)
    raw = raw_folder / f"hpccoutf-{test.words}-{attempt}.txt"
    run = HplRun(**test.model_dump(), attempt=attempt, command=" ".join([Path(launcher).name, *command[1:]]))
    with tempfile.TemporaryDirectory(prefix="hpcai-hpl-") as scratch:
        folder = Path(scratch)
        (folder / NAME).write_text(write_input(test))
        begin = time.monotonic()
        try:
            use = watch_run(command, folder, {**os.environ, **ONE_THREAD}, LONGEST_S)
        except (LaunchError, OSError) as error:
            return run.model_copy(update={"reason": f"not measured: {error}"})
        times = _Times(_known(use.cpu_ratio), _known(use.steal_ratio), time.monotonic() - begin)
        output = folder / "hpccoutf.txt"
        if not output.is_file():
            return run.model_copy(update={"reason": "not measured: hpcc left no hpccoutf.txt"})
        shutil.copyfile(output, raw)
    return judge_run(read_run(run.model_copy(update={"raw": raw.name}), raw, times.use, times.steal, times.start_s))


def read_run(run: HplRun, raw: Path, cpu_ratio: float | None, steal_ratio: float | None, start_s: float) -> HplRun:
    """Return a run with what the output of ``hpcc`` says of its one test."""
    try:
        table = read_hpl(raw).table
    except ParseError as error:
        return run.model_copy(update={"reason": f"not measured: {error}"})
    shape = ["order", "block", "process_rows", "process_columns"]
    rows = table[(table[shape] == [getattr(run, name) for name in shape]).all(axis=1)]
    if len(rows) != 1:
        return run.model_copy(update={"reason": f"not measured: {len(rows)} rows of results instead of one"})
    row = rows.iloc[0]
    time_s = _refine(float(row["time_s"]), raw.read_text(errors="replace"))
    return run.model_copy(
        update={
            "measured_time_s": time_s,
            "measured_rate_flop_per_s": operations(run.order) / time_s if time_s else None,
            "residual": _known(float(row["residual"])),
            "threshold": _known(float(row["threshold"])),
            "verdict": str(row["verdict"]),
            "cpu_ratio": cpu_ratio,
            "steal_ratio": steal_ratio,
            "start_s": start_s,
        }
    )


def _refine(printed_s: float, text: str) -> float:
    """Return the time with the summary's digits, if it is the printed one."""
    found = re.search(r"^HPL_time=(\d+\.?\d*(?:e[+-]?\d+)?)$", text, re.MULTILINE)
    fine_s = float(found[1]) if found else math.nan
    return fine_s if abs(fine_s - printed_s) <= ROUNDING_S else printed_s


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_versions(launcher: str, raws: list[Path]) -> dict[str, str]:
    """Return what launcher, suite and HPL say of themselves."""
    asked = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False).stdout
    versions = {"launcher": (asked.splitlines() or [""])[0]}
    text = raws[0].read_text(errors="replace") if raws else ""
    for name, pattern in (
        ("suite", r"HPC Challenge Benchmark version (\S+)"),
        ("hpl", r"^HPLinpack (\S+)"),
    ):
        if found := re.search(pattern, text, re.MULTILINE):
            versions[name] = found[1]
    return versions
