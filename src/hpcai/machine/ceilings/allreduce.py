"""Allreduce bandwidth and latency over message sizes, measured by ranks of the training engine.

Horovod ranks record its timeline, as in profiled runs: it has the duration of the transfer within each call.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.base import Engine
from hpcai.core.errors import ParseError, RecordError
from hpcai.core.messages import Message
from hpcai.machine.subprocess_measure import DeviceKind
from hpcai.metrics.profiles.communication import is_allreduce_transfer
from hpcai.metrics.profiles.link import AllreduceReport, AllreduceSample
from hpcai.parsers.horovod.timeline import read_timeline
from hpcai.records.files import read_part
from hpcai.training.allreduce_bench import WARM_UP, tensor_name

PROGRAM = ("-m", "hpcai.training.allreduce_bench")
NO_TIMELINE = Message("allreduce.no_timeline", "no transfer was timed: the engine {engine} has no timeline")
LIMIT_S = 120
GRACE_S = 10.0
OTHER_TRANSFERS = Message(
    "allreduce.other_transfers",
    "{size} bytes: {found} transfers in the timeline, expected {expected}",
)


def measure_allreduce(
    python: Sequence[str],
    cores_per_rank: int,
    device: DeviceKind = "cpu",
    engine: Engine = USUAL_ENGINE,
    options: Sequence[str] = (),
    limit_s: int = LIMIT_S,
) -> AllreduceReport:
    """Start ranks that time allreduces.

    If ranks fail, the report has no samples but the reason: the campaign continues.

    Parameters
    ----------
    python
        Command that starts one Python per rank: the launcher, followed by Python in this environment or in the
        machine's image.
    cores_per_rank, device
        Cores and device of each rank.
    engine
        Engine that performs the sums; only Horovod's timeline records transfers.
    options
        Further options of the program, for example ``--sizes``.
    limit_s
        Time limit for everything [s].
    """
    asked = ["--cores-per-rank", str(cores_per_rank), "--device", device, *options]
    with tempfile.TemporaryDirectory() as folder:
        return measure_allreduce_in(Path(folder), python, engine, asked, limit_s)


def measure_allreduce_in(
    folder: Path, python: Sequence[str], engine: Engine, options: Sequence[str], limit_s: int
) -> AllreduceReport:
    """Start ranks that time allreduces, as :func:`measure_allreduce`, with their files in a folder.

    Parameters
    ----------
    folder
        Seen by the node of the first rank, which may be another one than this.
    python, engine, limit_s
        As for :func:`measure_allreduce`.
    options
        Of the program, besides those that follow from the others.
    """
    output, timeline = folder / "allreduce.json", folder / "timeline.json"
    command = [*python, *PROGRAM, "--output", str(output), "--limit-s", str(limit_s), "--engine", engine]
    command += ["--record", str(timeline)] if engine == USUAL_ENGINE else []
    problem = run_launcher([*command, *options], folder / "output.log", limit_s)
    try:
        report = read_part(AllreduceReport, output)
    except (RecordError, OSError) as error:
        problem = problem or f"the launcher succeeded, but the ranks' report is missing: {error}"
        report = AllreduceReport(engine=engine)
    report = add_transfers(report, timeline)
    if problem:
        report = report.model_copy(update={"not_measured": (*report.not_measured, problem)})
    return report


def run_launcher(command: Sequence[str], log: Path, limit_s: float) -> str:
    """Run a launcher with its output in a file, at most ``limit_s`` [s]; return what went wrong, blank if nothing."""
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return f"{command[0]}: the launcher cannot be started: {error.strerror}"
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"ended after its limit of {limit_s:g} s"
        finally:
            _end(process)
    if status == 0:
        return ""
    return f"the launcher ended with exit status {status}: {_telling_line(log.read_text(errors='replace'))}"


_ERRORS = (
    re.compile(r"hpcai\.core\.errors\.\w+: .*"),
    re.compile(r"\b\w+(?:Error|Exception): .*"),
    re.compile(r".*\S.*"),
)
"""Most informative output of failed ranks, best first: our own error, any error, any text."""


def _telling_line(output: str) -> str:
    """Return the first error in a launcher's output: the ranks' errors precede its comments on them."""
    found = (pattern.search(output) for pattern in _ERRORS)
    return next((match.group().strip()[:500] for match in found if match), "no output")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher, SIGTERM first, so that it ends its ranks; ranks that it leaves behind end themselves."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def add_transfers(report: AllreduceReport, timeline: Path) -> AllreduceReport:
    """Return a report with the time of each transfer from its ranks' timeline, or why there is none.

    All repetitions of a size have one name, warm-ups first. A size whose numbers of transfers and allreduces differ
    gets no transfer times.
    """
    if not report.samples:
        return report
    if report.engine != USUAL_ENGINE:
        return report.model_copy(update={"transfers_missing": (NO_TIMELINE(engine=report.engine),)})
    try:
        spans = read_timeline(timeline).table
    except ParseError as error:
        return report.model_copy(update={"transfers_missing": (f"no transfer was timed: {error}",)})
    moved = spans[is_allreduce_transfer(spans["activity"])].sort_values("start_s", kind="stable")
    times_s = {str(name): own.to_list() for name, own in moved.groupby("tensor", observed=True)["duration_s"]}
    samples: list[AllreduceSample] = []
    missing: list[str] = []
    for size in dict.fromkeys(sample.size_bytes for sample in report.samples):
        own = [sample for sample in report.samples if sample.size_bytes == size]
        found = times_s.get(tensor_name(size), [])
        if len(found) != WARM_UP + len(own):
            missing.append(OTHER_TRANSFERS(size=size, found=len(found), expected=WARM_UP + len(own)))
            samples += own
            continue
        # The timeline counts microseconds: a transfer of 0 is too short for it.
        pairs = zip(own, found[WARM_UP:], strict=True)
        samples += [sample.model_copy(update={"transfer_s": time_s or None}) for sample, time_s in pairs]
    return report.model_copy(update={"samples": tuple(samples), "transfers_missing": tuple(missing)})
