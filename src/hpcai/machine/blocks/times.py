"""Times of training steps and their fused blocks on this machine: each network in a process of its own.

So many processes as there are cores compile at the same time. Then one after the other times, while the rest waits.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, TypeVar

from pydantic import ValidationError

from hpcai.config.plan_file import read_plan
from hpcai.core.disturbance import Tolerance
from hpcai.core.errors import ConfigError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.core.programs import last_words
from hpcai.machine.blocks.process import ENOUGH_S, MODULE, READY
from hpcai.machine.kernels.process import processor_model
from hpcai.machine.kernels.reference_steps import BATCHES
from hpcai.machine.subprocess_measure import THIS_PYTHON, Ended, measuring_environment
from hpcai.predict.steps.accuracy import print_steps
from hpcai.predict.steps.report import BlocksReport, Origin, SampleTimes, StepTimes
from hpcai.records.files import write_sealed

logger = logging.getLogger(__name__)
LIMIT_S = 900.0
"""For one network at all its batches, its compilation included; a quiet machine needs a tenth of it."""
AT_ONCE = 4
"""Networks that are compiled at the same time at most: each holds its operands in memory."""
NOTHING_ASKED = Message("blocks.nothing_asked", "nothing to time: give --plan with --manifest, or --network")
UNEVEN = Message(
    "blocks.uneven", "found {plans} plans and {manifests} manifests, expected as many of each, in the same order"
)
UNKNOWN_NETWORK = Message("blocks.unknown_network", "{found!r} is no reference network, expected one of {known}")
NOT_TIMED = Message("blocks.not_timed", "the process {ending}: {words}")

Part = TypeVar("Part", StepTimes, SampleTimes)


@dataclass(frozen=True)
class Asked:
    """One network at some batches: the options of its measuring process, and what it is called if that one dies."""

    name: str
    origin: Origin
    batches: tuple[int, ...]
    options: tuple[str, ...]


def ask_reference(name: str) -> Asked:
    """Return the question for a reference network at all its batches.

    Raises
    ------
    ConfigError
        If there is no such network.
    """
    if name not in BATCHES:
        raise ConfigError(UNKNOWN_NETWORK(found=name, known=", ".join(BATCHES)))
    batches = BATCHES[name]
    options = [word for batch in batches for word in ("--batch", str(batch))]
    return Asked(name, "reference network", batches, ("--network", name, *options))


def ask_benchmarks(plans: Sequence[Path], manifests: Sequence[Path]) -> list[Asked]:
    """Return a question for each benchmark of some plans: on the dataset of its manifest, packed if it lies there.

    Of several plans with the same micro-batch and precision the first one counts.

    Raises
    ------
    HpcaiError
        If a plan is missing or damaged.
    """
    found: dict[tuple[str, Path], dict[tuple[int, str], str]] = {}
    packed: set[str] = set()
    for file, manifest in zip(plans, manifests, strict=True):
        plan = read_plan(file)
        own = found.setdefault((plan.benchmark.name, manifest), {})
        own.setdefault((plan.micro_batch, plan.point.precision), str(file))
        packed |= {plan.benchmark.name} if plan.benchmark.is_packed else set()
    return [
        Asked(
            name,
            "benchmark",
            tuple(batch for batch, _ in own),
            (
                *(word for file in own.values() for word in ("--plan", file)),
                *("--manifest", str(manifest)),
                *(("--pack", str(manifest.parent / "packed" / "packed.json")) if name in packed else ()),
            ),
        )
        for (name, manifest), own in found.items()
    ]


def ask_all(plans: Sequence[str | Path], manifests: Sequence[str | Path], networks: Sequence[str]) -> list[Asked]:
    """Return the questions for benchmarks, each plan with its manifest, and for reference networks.

    Raises
    ------
    ConfigError
        If the numbers of manifests and plans differ, or a network is unknown.
    HpcaiError
        If a plan is missing or damaged.
    """
    if len(plans) != len(manifests):
        raise ConfigError(UNEVEN(plans=len(plans), manifests=len(manifests)))
    benchmarks = ask_benchmarks(list(map(Path, plans)), list(map(Path, manifests)))
    return [*benchmarks, *map(ask_reference, networks)]


def measure_blocks(
    asked: Sequence[Asked], python: Sequence[str] = THIS_PYTHON, enough_s: float = ENOUGH_S, samples: int = 0
) -> BlocksReport:
    """Time step, update and blocks of networks, one process after the other, with exclusive use of the machine.

    Parameters
    ----------
    asked
        Networks and batch sizes; at least one.
    python
        Command that runs Python in this environment or in the machine's image.
    enough_s
        Time for all rounds of each, compilation not included, at most [s].
    samples
        Blocks of random sizes of each kind to time besides.

    Raises
    ------
    ConfigError
        If nothing is requested.
    """
    if not asked:
        raise ConfigError(NOTHING_ASKED())
    command = [*python, "-m", MODULE, "--enough", str(enough_s)]
    with machine_to_itself(logger.info) as watch:
        start_s = time.monotonic()
        steps = list(_measure_networks(asked, command))
        wall_s = time.monotonic() - start_s
        drawn, reason = _measure_samples(samples, command) if samples else ((), "")
        samples_wall_s = time.monotonic() - start_s - wall_s
    return BlocksReport(
        processor=processor_model(),
        software=next((one.software for one in steps if one.software), ""),
        wall_s=wall_s,
        steps=tuple(steps),
        samples=drawn,
        samples_wall_s=samples_wall_s if samples else None,
        samples_reason=reason,
        disturbance=watch.disturbance,
    )


def _measure_networks(asked: Sequence[Asked], command: Sequence[str]) -> Iterator[StepTimes]:
    """Yield what the processes measured; those of one group compile together, then each times alone."""
    together = min(AT_ONCE, len(os.sched_getaffinity(0)))
    for start in range(0, len(asked), together):
        group = asked[start : start + together]
        names = ", ".join(f"{one.name} {' '.join(map(str, one.batches))}" for one in group)
        logger.info("blocks: %s (%d to %d of %d)", names, start + 1, start + len(group), len(asked))
        started = [Measuring([*command, "--core", str(core), *one.options]) for core, one in enumerate(group)]
        try:
            for process in started:
                process.wait_until_ready()
            for one, process in zip(group, started, strict=True):
                yield from _read_steps(one, process.finish())
        finally:
            for process in started:
                process.stop()


def _read_steps(asked: Asked, ended: Ended) -> Iterator[StepTimes]:
    """Yield what the process of one network printed, and for each batch that it did not come to, why."""
    found = [step for line in ended.output.splitlines() if (step := _parse(StepTimes, line))]
    yield from found
    words = NOT_TIMED(ending=ended.ending, words=last_words(ended.errors))
    for batch in asked.batches[len(found) :]:
        logger.warning("blocks: %s batch %d: %s", asked.name, batch, words)
        yield StepTimes(network=asked.name, origin=asked.origin, batch=batch, reason=words)


def _parse(kind: type[Part], line: str) -> Part | None:
    try:
        return kind.model_validate_json(line)
    except ValidationError:
        return None


def _measure_samples(samples: int, command: Sequence[str]) -> tuple[tuple[SampleTimes, ...], str]:
    """Return the times of blocks of random sizes, and why some or all are missing."""
    logger.info("blocks: %d of random sizes of each kind", samples)
    process = Measuring([*command, "--samples", str(samples)])
    try:
        process.wait_until_ready()
        ended = process.finish()
    finally:
        process.stop()
    found = tuple(part for line in ended.output.splitlines() if (part := _parse(SampleTimes, line)))
    return found, "" if ended.status == 0 else NOT_TIMED(ending=ended.ending, words=last_words(ended.errors))


class Measuring:
    """A measuring process that compiles first, and times when it is told to."""

    def __init__(self, command: Sequence[str], limit_s: float = LIMIT_S) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `stop`
        self._limit_s = limit_s
        self._process = subprocess.Popen(
            command,
            env=measuring_environment(CUDA_VISIBLE_DEVICES=""),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            errors="replace",
        )
        self._is_late = False
        self._timer = Timer(limit_s, self._end_late)
        self._timer.daemon = True
        self._timer.start()

    def _end_late(self) -> None:
        self._is_late = True
        self._process.kill()

    def wait_until_ready(self) -> None:
        """Return when everything is compiled, or the process has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == READY:
                return

    def finish(self) -> Ended:
        """Let the process time; return what it printed when it is over."""
        output, _ = self._process.communicate(input="\n")
        self._errors.seek(0)
        status = None if self._is_late else self._process.returncode
        return Ended(status, output, self._errors.read().decode(errors="replace"), self._limit_s)

    def stop(self) -> None:
        """End the process if it is still there."""
        self._timer.cancel()
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self._errors.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Time networks, write the report and print predicted and measured steps; "disturbed" if the machine was."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.machine.blocks.times", description=main.__doc__)
    parser.add_argument("--plan", type=Path, action="append", default=[], help="plan.json of a run; may be repeated")
    parser.add_argument("--manifest", type=Path, action="append", default=[], help="of its dataset, in the same order")
    parser.add_argument("--network", action="append", default=[], help=f"one of {', '.join(BATCHES)}")
    parser.add_argument("--enough", type=float, default=ENOUGH_S, help="seconds for the rounds of each batch, at most")
    parser.add_argument("--samples", type=int, default=0, help="blocks of random sizes of each kind")
    parser.add_argument("--output", type=Path, required=True, help="file for the report")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asked = ask_all(given.plan, given.manifest, given.network)
    report = measure_blocks(asked, enough_s=given.enough, samples=given.samples)
    write_sealed(report, given.output)
    print(print_steps(report, Tolerance()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
