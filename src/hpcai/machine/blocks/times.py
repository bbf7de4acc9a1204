"""Times of training steps and their fused blocks on this machine: each network in its own process."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcai.config.load import read_plan
from hpcai.core.disturbance import Tolerance
from hpcai.core.errors import ConfigError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.machine.blocks.process import ENOUGH_S, MODULE
from hpcai.machine.kernels.process import processor_model
from hpcai.machine.kernels.reference_steps import BATCHES
from hpcai.machine.subprocess_measure import THIS_PYTHON, run_process
from hpcai.predict.steps.accuracy import print_steps
from hpcai.predict.steps.report import SETS, BlocksReport, Origin, StepTimes
from hpcai.records.run import write_sealed

logger = logging.getLogger(__name__)
LIMIT_S = 900.0
"""Time limit for one network at one batch size, compilation included [s]; a quiet machine needs a tenth of it."""
NOTHING_ASKED = Message("blocks.nothing_asked", "nothing to time: specify --plan with --manifest, or --network")
UNEVEN = Message(
    "blocks.uneven", "found {plans} plans and {manifests} manifests, expected as many of each, in the same order"
)
UNKNOWN_NETWORK = Message("blocks.unknown_network", "{found!r} is no reference network, expected one of {known}")
NOT_TIMED = Message("blocks.not_timed", "the process {ending}: {words}")


@dataclass(frozen=True)
class Asked:
    """One network at one batch size: the options of its measuring process, and its name if the process fails."""

    name: str
    origin: Origin
    batch: int
    options: tuple[str, ...]


def ask_reference(name: str) -> list[Asked]:
    """Return one request per batch size of a reference network.

    Raises
    ------
    ConfigError
        If there is no such network.
    """
    if name not in BATCHES:
        raise ConfigError(UNKNOWN_NETWORK(found=name, known=", ".join(BATCHES)))
    return [
        Asked(name, "reference network", batch, ("--network", name, "--batch", str(batch))) for batch in BATCHES[name]
    ]


def ask_benchmark(plan: Path, manifest: Path) -> Asked:
    """Return the request for the benchmark of a run's plan, on the dataset of a manifest, packed if a pack is there.

    Raises
    ------
    HpcaiError
        If the plan is missing or damaged.
    """
    read = read_plan(plan)
    pack = ("--pack", str(manifest.parent / "packed" / "packed.json")) if read.benchmark.is_packed else ()
    options = ("--plan", str(plan), "--manifest", str(manifest), *pack)
    return Asked(read.benchmark.name, "benchmark", read.micro_batch, options)


def ask_all(plans: Sequence[str | Path], manifests: Sequence[str | Path], networks: Sequence[str]) -> list[Asked]:
    """Return the requests for benchmarks, each with its manifest, and for reference networks.

    Raises
    ------
    ConfigError
        If the numbers of manifests and plans differ, or a network is unknown.
    HpcaiError
        If a plan is missing or damaged.
    """
    if len(plans) != len(manifests):
        raise ConfigError(UNEVEN(plans=len(plans), manifests=len(manifests)))
    benchmarks = [ask_benchmark(Path(plan), Path(file)) for plan, file in zip(plans, manifests, strict=True)]
    return [*benchmarks, *(one for name in networks for one in ask_reference(name))]


def measure_blocks(
    asked: Sequence[Asked], python: Sequence[str] = THIS_PYTHON, enough_s: float = ENOUGH_S
) -> BlocksReport:
    """Time step, update and blocks of networks, one process after the other, with exclusive use of the machine.

    Parameters
    ----------
    asked
        Networks and batch sizes; at least one.
    python
        Command that runs Python in this environment or in the machine's image.
    enough_s
        Time for all rounds of each network, compilation excluded [s].

    Raises
    ------
    ConfigError
        If nothing is requested.
    """
    if not asked:
        raise ConfigError(NOTHING_ASKED())
    with machine_to_itself(logger.info) as watch:
        start_s = time.monotonic()
        steps = []
        for number, one in enumerate(asked, 1):
            logger.info("blocks: %s batch %d (%d of %d)", one.name, one.batch, number, len(asked))
            steps.append(_measure(one, [*python, "-m", MODULE, "--enough", str(enough_s)]))
        wall_s = time.monotonic() - start_s
    return BlocksReport(
        processor=processor_model(),
        software=next((one.software for one in steps if one.software), ""),
        sets=SETS,
        wall_s=wall_s,
        steps=tuple(steps),
        disturbance=watch.disturbance,
    )


def _measure(asked: Asked, command: Sequence[str]) -> StepTimes:
    """Return the measurement of one network's process, or why there is none."""
    ended = run_process([*command, *asked.options], LIMIT_S, CUDA_VISIBLE_DEVICES="")
    last = (ended.output.strip().splitlines() or [""])[-1]
    try:
        return StepTimes.model_validate_json(last)
    except ValidationError:
        words = NOT_TIMED(ending=ended.ending, words=ended.errors.strip()[-300:])
        logger.warning("blocks: %s batch %d: %s", asked.name, asked.batch, words)
        return StepTimes(network=asked.name, origin=asked.origin, batch=asked.batch, reason=words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time networks, write the report and print predicted and measured steps; "disturbed" if the machine was."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.machine.blocks.times", description=main.__doc__)
    parser.add_argument("--plan", type=Path, action="append", default=[], help="plan.json of a run; may be repeated")
    parser.add_argument("--manifest", type=Path, action="append", default=[], help="of its dataset, in the same order")
    parser.add_argument("--network", action="append", default=[], help=f"one of {', '.join(BATCHES)}")
    parser.add_argument("--enough", type=float, default=ENOUGH_S, help="seconds for the rounds of each network")
    parser.add_argument("--output", type=Path, required=True, help="file for the report")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asked = ask_all(given.plan, given.manifest, given.network)
    report = measure_blocks(asked, enough_s=given.enough)
    write_sealed(report, given.output)
    print(print_steps(report, Tolerance()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
