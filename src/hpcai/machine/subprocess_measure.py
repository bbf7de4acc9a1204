"""Run each measurement in a subprocess: BLAS fixes its thread count at import, and a crash must not end the job."""

import argparse
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from hpcai.core.errors import LaunchError
from hpcai.core.lean_imports import NEEDLESS, without
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.core.programs import last_words, say_ending
from hpcai.core.text import say_rate
from hpcai.machine.ceilings.agreement import further_rounds
from hpcai.machine.ceilings.sampling import CeilingReport, Kind, NotMeasured, Sample, Summary, Way, report_of, time_way

logger = logging.getLogger(__name__)
DeviceKind = Literal["cpu", "gpu"]
THIS_PYTHON = (sys.executable,)
LONGEST_CALL_S = 0.25
"""Longest call [s]: a slower one is emulated, or too large for this machine; less work already gives its rate."""
FORETELLING = 3
"""Repetitions of a family's least work, so that one disturbed repetition does not exclude everything larger."""
LONGEST_S = 600.0
"""Time limit for one number of threads, including restarts after crashes [s]."""
TOO_MANY_THREADS = Message(
    "subprocess_measure.too_many_threads",
    "threads: found {threads}, expected at most {cores}, the cores that may be used here; correct cores_per_rank and "
    "cores_per_node of the machine file, or give the job all cores of its node",
)
ENDED_BADLY = Message("subprocess_measure.ended_badly", "{module} {ending}, expected exit status 0: {error}")
TIME_UP = Message("subprocess_measure.time_up", "the measurement was ended after {limit_s:g} s")
TIME_UP_IN = Message("subprocess_measure.time_up_in", "the measurement was ended after {limit_s:g} s, in {trying}")


class _Plan(BaseModel):
    """Written first: all methods that a process will try, so that unreached ones are known."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ways: tuple[str, ...]


class _Trying(BaseModel):
    """Written before every call of a method: after a crash, the last one is the culprit."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trying: str


_Line = Sample | NotMeasured | _Trying | _Plan
_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)


@dataclass(frozen=True)
class Options:
    """Options of a measuring process.

    Attributes
    ----------
    threads
        Number of cores to use.
    device
        Device to measure.
    repeats
        Timed repetitions of each method, after one warm-up.
    without
        Methods to skip, because an earlier process crashed on them.
    """

    threads: int
    device: DeviceKind
    repeats: int
    without: tuple[str, ...] = ()


def measure_apart(
    kind: Kind,
    module: str,
    threads: Iterable[int],
    device: DeviceKind,
    repeats: int,
    *,
    python: Sequence[str] = THIS_PYTHON,
) -> CeilingReport:
    """Measure with each number of threads in a separate process, while nothing else is timed on this node.

    A method that crashes is skipped. At the time limit, existing samples count, and the rest gets that reason. What
    cannot be measured at all (more threads than cores, a process that does not start) is not an error: the report gives
    the reason.

    Parameters
    ----------
    kind
        What is measured; names it for thread counts without any sample.
    module
        Module whose ``python -m`` serves the methods (:func:`serve`).
    threads
        Numbers of threads; on an accelerator only the smallest, because the device does the work.
    device, repeats
        See :class:`Options`.
    python
        Command that runs Python in this environment or in the machine's image.
    """
    counts = sorted(set(threads))
    counts = counts if device == "cpu" else counts[:1]
    samples: list[Sample] = []
    missing: list[NotMeasured] = []
    with machine_to_itself(logger.info) as watch:
        for count in counts:
            reason = say_lacking_cores(count)
            try:
                found = _Found() if reason else _measure_with([*python, "-m", module], Options(count, device, repeats))
            except (LaunchError, OSError) as error:
                found, reason = _Found(), str(error)
            samples += found.samples
            missing += found.missing.values()
            if reason:
                logger.warning("%s with %d threads is not measured: %s", kind, count, reason)
                missing.append(NotMeasured(kind=kind, threads=count, reason=reason))
    return report_of(samples, missing, watch.disturbance)


def say_lacking_cores(threads: int) -> str:
    """Return why this many threads cannot be measured here; blank if they can."""
    cores = len(os.sched_getaffinity(0))
    if threads <= cores:
        return ""
    return TOO_MANY_THREADS(threads=threads, cores=cores)


@dataclass
class _Found:
    """Results so far of the processes with one number of threads; methods by name."""

    samples: list[Sample] = field(default_factory=list)
    missing: dict[str, NotMeasured] = field(default_factory=dict)
    planned: tuple[str, ...] = ()
    trying: str = ""

    def add(self, output: str) -> None:
        """Add the lines of one process; only the last process has a last tried method."""
        self.trying = ""
        for line in map(_LINE.validate_json, output.splitlines()):
            if isinstance(line, Sample):
                self.samples.append(line)
            elif isinstance(line, NotMeasured):
                self.missing[name_of(line)] = line
            elif isinstance(line, _Plan):
                self.planned = line.ways
            else:
                self.trying = line.trying


def _measure_with(program: Sequence[str], options: Options) -> _Found:
    """Run processes until one completes or time is up; each skips methods that crashed earlier ones."""
    until_s = time.monotonic() + LONGEST_S
    found, crashed = _Found(), set[str]()
    while True:
        command = [*program, "--threads", str(options.threads), "--device", options.device]
        command += ["--repeats", str(options.repeats), *(f"--without={name}" for name in sorted(crashed))]
        process = _run(command, options.threads, max(0.0, until_s - time.monotonic()))
        found.add(process.output)
        if process.timed_out and found.planned:
            _add_unreached(found, options.threads)
            return found
        if not process.ending:
            return found
        if process.timed_out or not found.trying or found.trying in crashed:
            logger.debug("%s: %s", " ".join(command), process.errors)
            raise LaunchError(ENDED_BADLY(module=program[-1], ending=process.ending, error=last_words(process.errors)))
        crashed.add(found.trying)
        # A method that crashes in one call gives no ceiling in another; the samples of all others count.
        found.samples = [sample for sample in found.samples if name_of(sample) != found.trying]
        reason = f"the process {process.ending}: {last_words(process.errors)}"
        found.missing[found.trying] = _not_measured(found.trying, options.threads, reason)


def _add_unreached(found: _Found, threads: int) -> None:
    """Record for all methods without a sample that time was up."""
    known = {name_of(sample) for sample in found.samples} | set(found.missing)
    trying = found.trying.replace("|", " ").strip()
    reason = TIME_UP_IN(limit_s=LONGEST_S, trying=trying) if trying else TIME_UP(limit_s=LONGEST_S)
    for name in found.planned:
        if name not in known:
            found.missing[name] = _not_measured(name, threads, reason)


@dataclass(frozen=True)
class _Process:
    """A process that has ended: its complete lines, how it ended (blank: successfully), and its errors."""

    output: str
    ending: str
    errors: str
    timed_out: bool = False


def _run(command: Sequence[str], threads: int, limit_s: float) -> _Process:
    ended = run_process(command, limit_s, OPENBLAS_NUM_THREADS=str(threads))
    if ended.status is None:
        return _Process(ended.output, f"was ended after {LONGEST_S:g} s", ended.errors, timed_out=True)
    return _Process(ended.output, say_ending(ended.status) if ended.status else "", ended.errors)


@dataclass(frozen=True)
class Ended:
    """A measuring process that has ended: exit status (None: time limit), complete lines, and errors."""

    status: int | None
    output: str
    errors: str
    limit_s: float

    @property
    def ending(self) -> str:
        """How it ended, as text."""
        return f"was ended after {self.limit_s:g} s" if self.status is None else say_ending(self.status)


def measuring_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a measuring process: TensorFlow uses oneDNN, as in trainings, and says little."""
    return {"TF_ENABLE_ONEDNN_OPTS": "1", **os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables}


def run_process(command: Sequence[str], limit_s: float, **variables: str) -> Ended:
    """Run a measuring process to its end, or to its time limit.

    Parameters
    ----------
    limit_s
        Time limit [s].
    variables
        Added to the environment.
    """
    environment = measuring_environment(**variables)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=limit_s)
        status, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        status, output, errors = None, error.stdout or b"", error.stderr or b""
    whole_lines = output[: output.rfind(b"\n") + 1]
    return Ended(status, whole_lines.decode(errors="replace"), errors.decode(errors="replace"), limit_s)


def _not_measured(name: str, threads: int, reason: str) -> NotMeasured:
    kind, precision, backend, setting = name.split("|")
    fields = {"kind": kind, "precision": precision, "backend": backend, "setting": setting}
    return NotMeasured.model_validate({**fields, "threads": threads, "reason": reason})


def name_of(way: Way | Sample | Summary | NotMeasured) -> str:
    """Return the name of a method for communication between processes."""
    return "|".join((way.kind, way.precision, way.backend, way.setting))


def parse_options(module: str) -> Options:
    """Parse this measuring process's command line."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Print one JSON line per sample.")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--without", action="append", default=[], metavar="WAY")
    found = parser.parse_args()
    return Options(found.threads, found.device, found.repeats, tuple(found.without))


def settle_tensorflow(options: Options) -> None:
    """Configure threads and device of TensorFlow, which most methods use."""
    with without(*NEEDLESS):
        import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if options.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif not tf.config.list_physical_devices("GPU"):
        raise LaunchError(
            "TensorFlow found no accelerator here; correct device.kind of the machine file or the request"
        )


def serve(
    options: Options,
    ways: Callable[[DeviceKind], Iterable[Way]],
    settle: Callable[[Options], None] = settle_tensorflow,
) -> None:
    """Run as the measuring process for this many cores; print a line for every sample and every failure."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    settle(options)
    for line in sample_ways(ways(options.device), options):
        print(line.model_dump_json(), flush=True)


def sample_ways(ways: Iterable[Way], options: Options) -> Iterator[BaseModel]:
    """Time every method once, then the affordable ones again in turn, so that a disturbance affects all of them.

    The fastest methods are repeated until their best two repetitions agree
    (:mod:`hpcai.machine.ceilings.agreement`).
    """
    chosen = [way for way in ways if name_of(way) not in options.without]
    yield _Plan(ways=tuple(map(name_of, chosen)))
    timed = _Timed(options.threads)
    rates: dict[tuple[str, ...], float] = {}
    for way in chosen:
        family = (way.kind, way.precision, way.backend, way.family)
        if way.work > LONGEST_CALL_S * rates.get(family, float("inf")):
            yield _missing(way, options.threads, _say_too_slow(way, rates[family]))
            continue
        for line in timed.time(way, 1 if family in rates else FORETELLING, warm_up=True):
            yield line
            if isinstance(line, Sample):
                rates[family] = max(rates.get(family, 0.0), line.value)
    for _ in range(options.repeats - 1):
        yield from timed.time_again(tuple(timed.working))
    for disagreeing in further_rounds(lambda: timed.samples):
        yield from timed.time_again(map(name_of, disagreeing))


class _Timed:
    """The samples so far, and the methods that have not failed, by name."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.samples: list[Sample] = []
        self.working: dict[str, Way] = {}

    def time(self, way: Way, count: int, *, warm_up: bool = False) -> Iterator[BaseModel]:
        """Time one method repeatedly, or record why not; announce it first, because it may crash the process."""
        name = name_of(way)
        yield _Trying(trying=name)
        self.working[name] = way
        try:
            if warm_up:
                way.wait(way.run())  # compiles kernels and wakes threads
            for _ in range(count):
                self.samples.append(time_way(way, self._threads))
                yield self.samples[-1]
        except Exception as error:  # libraries raise many types for unsupported cases
            del self.working[name]
            yield _missing(way, self._threads, say_error(error))

    def time_again(self, names: Iterable[str]) -> Iterator[BaseModel]:
        """Time methods once more, unless they have failed."""
        for name in names:
            if name in self.working:
                yield from self.time(self.working[name], 1)


def _say_too_slow(way: Way, rate: float) -> str:
    return (
        f"one call would take about {way.work / rate:.1f} s at {say_rate(rate, way.unit)}, "
        f"the best rate of less work of this kind; the limit is {LONGEST_CALL_S:g} s"
    )


def say_error(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    words = (str(error).strip().splitlines() or ["without a message"])[0]
    return f"{type(error).__name__}: {words[:300]}"


def _missing(way: Way, threads: int, reason: str) -> NotMeasured:
    return NotMeasured(
        kind=way.kind,
        precision=way.precision,
        backend=way.backend,
        setting=way.setting,
        threads=threads,
        reason=reason,
    )
