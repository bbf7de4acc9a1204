"""Measures in a process of its own: libraries settle their threads when they start, and a crash takes no more along."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from hpcai.characterise.sampling import CeilingReport, NotMeasured, Sample, Way, report_of, time_way
from hpcai.errors import ConfigError, LaunchError
from hpcai.metrics.words import say_rate

DeviceKind = Literal["cpu", "gpu"]
LONGEST_CALL_S = 1.0
"""What would take longer for one call is emulated, or too large for this machine: its rate is known from less work."""
FORETELLING = 3
"""Repetitions of the least work of a family: one that is disturbed must not leave out all that is larger."""
LONGEST_PROCESS_S = 300.0


class _Trying(BaseModel):
    """Written before a way is tried: the last one is what a crashed process has crashed on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trying: str


_LINE: TypeAdapter[Sample | NotMeasured | _Trying] = TypeAdapter(Sample | NotMeasured | _Trying)


@dataclass(frozen=True)
class Options:
    """What a measuring process is told.

    Attributes
    ----------
    threads
        Cores that it may use.
    device
        What shall be measured.
    repeats
        Timed repetitions of each way, after one that warms up.
    without
        Ways to leave out: an earlier process crashed on them.
    """

    threads: int
    device: DeviceKind
    repeats: int
    without: tuple[str, ...] = ()


def measure_apart(module: str, threads: Iterable[int], device: DeviceKind, repeats: int) -> CeilingReport:
    """Measure with each number of threads in a process of its own.

    Parameters
    ----------
    module
        Its ``python -m`` serves the ways (:func:`serve`).
    threads
        Numbers of threads; on an accelerator only the smallest, because it is the device that works.
    device, repeats
        See :class:`Options`.

    Raises
    ------
    ConfigError
        If there are fewer usable cores than threads.
    LaunchError
        If a measuring process fails outside of what it measures.
    """
    samples: list[Sample] = []
    missing: list[NotMeasured] = []
    counts = sorted(set(threads))
    for count in counts if device == "cpu" else counts[:1]:
        _require_cores(count)
        _measure_with(module, Options(count, device, repeats), samples, missing)
    return report_of(samples, missing)


def _require_cores(threads: int) -> None:
    cores = len(os.sched_getaffinity(0))
    if threads > cores:
        raise ConfigError(f"threads: found {threads}, expected at most {cores}, the cores that may be used here")


def _measure_with(module: str, options: Options, samples: list[Sample], missing: list[NotMeasured]) -> None:
    """Run processes until one comes to its end; each leaves out what crashed those before."""
    crashed: dict[str, NotMeasured] = {}
    while True:
        command = [sys.executable, "-m", module, "--threads", str(options.threads), "--device", options.device]
        command += ["--repeats", str(options.repeats), *(f"--without={name}" for name in crashed)]
        output, ending, errors = _run(command, options.threads)
        lines = [_LINE.validate_json(line) for line in output.splitlines()]
        tried = [line.trying for line in lines if isinstance(line, _Trying)]
        if not ending or not tried or tried[-1] in crashed:
            break
        crashed[tried[-1]] = _crash(tried[-1], options.threads, f"the process {ending}: {errors[-300:].strip()}")
    if ending:
        raise LaunchError(f"{' '.join(command)}: {ending}, expected exit status 0: {errors[-2000:]}")
    samples += [line for line in lines if isinstance(line, Sample)]
    missing += [*crashed.values(), *(line for line in lines if isinstance(line, NotMeasured))]


def _run(command: Sequence[str], threads: int) -> tuple[str, str, str]:
    """Return the whole lines of a process's output, how it ended (blank: well), and its errors."""
    environment = {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        **os.environ,
        "OPENBLAS_NUM_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LONGEST_PROCESS_S)
    except subprocess.TimeoutExpired as error:
        output, errors = error.stdout or b"", error.stderr or b""
        ending = f"was ended after {LONGEST_PROCESS_S:g} s"
    else:
        output, errors, ending = done.stdout, done.stderr, _say_ending(done.returncode)
    whole = output[: output.rfind(b"\n") + 1]
    return whole.decode(), ending, errors.decode(errors="replace")


def _say_ending(status: int) -> str:
    if status >= 0:
        return f"ended with {status}" if status else ""
    return f"was ended by {signal.Signals(-status).name}"


def _crash(name: str, threads: int, reason: str) -> NotMeasured:
    kind, precision, backend, setting = name.split("|")
    fields = {"kind": kind, "precision": precision, "backend": backend, "setting": setting}
    return NotMeasured.model_validate({**fields, "threads": threads, "reason": reason})


def name_of(way: Way) -> str:
    """Return the name of a way between processes."""
    return "|".join((way.kind, way.precision, way.backend, way.setting))


def parse_options(module: str) -> Options:
    """Return what this measuring process is told on its command line."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Print one JSON line per sample.")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--without", action="append", default=[], metavar="WAY")
    found = parser.parse_args()
    return Options(found.threads, found.device, found.repeats, tuple(found.without))


def serve(options: Options, ways: Callable[[DeviceKind], Iterable[Way]]) -> None:
    """Print a line for every sample and every failure, as the measuring process with so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    _settle_tensorflow(options)
    for line in sample_ways(ways(options.device), options):
        print(line.model_dump_json(), flush=True)


def _settle_tensorflow(options: Options) -> None:
    # Keras imports these two for plots and data frames where it finds them: a quarter of the time of all imports.
    for name in ("matplotlib", "pandas"):
        if name not in sys.modules:
            sys.modules[name] = None  # type: ignore[assignment]  # stops an import (docs.python.org)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if options.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif not tf.config.list_physical_devices("GPU"):
        raise LaunchError(
            "TensorFlow found no accelerator here; correct device.kind of the machine file or the request"
        )


def sample_ways(ways: Iterable[Way], options: Options) -> Iterator[BaseModel]:
    """Time every way once, and those that are not too slow again, in turn, so that a disturbance spreads over all."""
    rates: dict[tuple[str, ...], float] = {}
    kept: list[Way] = []
    for way in ways:
        family = (way.kind, way.precision, way.backend, way.family)
        if name_of(way) in options.without:
            continue
        if way.work > LONGEST_CALL_S * rates.get(family, float("inf")):
            yield _missing(way, options.threads, _say_too_slow(way.work, rates[family]))
            continue
        yield _Trying(trying=name_of(way))
        try:
            way.wait(way.run())  # compiles kernels and wakes up threads
            samples = [time_way(way, options.threads) for _ in range(1 if family in rates else FORETELLING)]
        except Exception as error:  # whatever a library raises for what it cannot do
            yield _missing(way, options.threads, f"{type(error).__name__}: {_first_line(error)}")
            continue
        rates[family] = max(rates.get(family, 0.0), *(sample.value for sample in samples))
        kept.append(way)
        yield from samples
    for _ in range(options.repeats - 1):
        for way in kept:
            yield time_way(way, options.threads)


def _say_too_slow(work_flop: float, rate_flop_per_s: float) -> str:
    return (
        f"one call would take about {work_flop / rate_flop_per_s:.1f} s at {say_rate(rate_flop_per_s, 'FLOP/s')}, "
        f"the best rate of less work of this kind; the limit is {LONGEST_CALL_S:g} s"
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "without a message"


def _missing(way: Way, threads: int, reason: str) -> NotMeasured:
    return NotMeasured(
        kind=way.kind,
        precision=way.precision,
        backend=way.backend,
        setting=way.setting,
        threads=threads,
        reason=reason,
    )
