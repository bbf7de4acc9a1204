"""The short trainings of an acceptance: one on every node at the same time, and one on all nodes together."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from hpcai.config.acceptance import Acceptance
from hpcai.config.runs import RunPlan
from hpcai.core.errors import DatasetError, LaunchError, MissingExtraError, ParseError, StagingError
from hpcai.core.messages import Message, Said
from hpcai.launchers.ranks import Ranks
from hpcai.measure.acceptance_nodes import Until
from hpcai.measure.attempts import attempt_name
from hpcai.measure.claim import Guard
from hpcai.measure.container import require_training
from hpcai.measure.inputs import Inputs
from hpcai.measure.interruption import Interruption
from hpcai.measure.room import NoRoomError
from hpcai.measure.supervise import Measurement, Run, Start, scratch_folder
from hpcai.records.acceptance import Kind, Series
from hpcai.records.files import RAW, check_raw_file
from hpcai.records.run import FINISHED, RunRecord
from hpcai.records.weak import InstanceShare, NodeShare

logger = logging.getLogger(__name__)
NODE, MACHINE = "training", "training of all nodes"
WARM_STEPS, BLOCK_STEPS = 3, 8
"""First steps, which are slower; and steps behind each value."""
FEWEST_VALUES = 3
NO_BATCH = Message(
    "acceptance.no_batch",
    "{benchmark}: its {samples} training samples make no batch for {ranks} ranks, expected a multiple of them; choose "
    "acceptance.benchmark of the study with more samples",
)
TOO_FEW_STEPS = Message(
    "acceptance.too_few_steps", "ended after {steps} steps, expected at least {least}; choose a longer training"
)
SHORTEST_S = 60.0
"""Trainings that would have less time are not started [s]."""
Means = tuple[Inputs, str, Guard]
"""The data, the launcher, and what may end a training."""
Place = tuple[str, ...]
"""Nodes that train together."""


def train_for_acceptance(
    plan: RunPlan, settings: Acceptance, hosts: Sequence[str], means: Means, folder: Path, until: Until
) -> Iterator[Series]:
    """Yield the throughput of a training on every node, and of one on all of them.

    Parameters
    ----------
    plan
        Training on one node.
    settings
        Nodes at once.
    hosts
        All nodes.
    means
        Data, launcher, and what may end it.
    folder
        Gets the runs.
    until
        The end of the acceptance.
    """
    at_once = settings.at_once or max(len(hosts), 1)
    lost = set[str]()
    for start in range(0, len(hosts), at_once):
        for one in _train(plan, [(host,) for host in hosts[start : start + at_once]], means, folder, until):
            lost |= set(one.nodes) if one.failed else set()
            yield one
    whole = tuple(host for host in hosts if host not in lost)
    if len(whole) > 1:
        yield from _train(plan, [whole], means, folder, until)


def _train(plan: RunPlan, places: Sequence[Place], means: Means, folder: Path, until: Until) -> Iterator[Series]:
    """Train on some groups of nodes at the same time.

    A node that is lost, or lacks room, has failed, and the others train again without it. A training that is not
    possible for another reason has failed everywhere.
    """
    left = list(places)
    while left:
        bad: Mapping[str, str]
        try:
            yield from _together(plan, left, means, folder, until)
            return
        except Interruption as error:
            bad = dict.fromkeys(error.lost_nodes, error.reason)
            if not bad.keys() & {host for hosts in left for host in hosts}:
                raise
            means[2].signals.go_on()
        except NoRoomError as error:
            bad = error.nodes
        except (LaunchError, DatasetError, MissingExtraError, StagingError) as error:
            bad = {host: str(error) for hosts in left for host in hosts}
        yield from _failures(left, bad)
        whole = [tuple(host for host in hosts if host not in bad) for hosts in left]
        left = [hosts for hosts in whole if hosts]


def _failures(places: Sequence[Place], bad: Mapping[str, str]) -> Iterator[Series]:
    """Yield a failed training for each bad node, or for all nodes if none of them is left."""
    for hosts in places:
        if len(hosts) > 1 and not set(hosts) - bad.keys():
            yield _series(hosts, reason=bad[hosts[0]])
            continue
        for host in hosts:
            if host in bad:
                measure = MACHINE if len(hosts) > 1 else NODE
                yield _series((host,), reason=bad[host]).model_copy(update={"measure": measure})


def _together(plan: RunPlan, places: Sequence[Place], means: Means, folder: Path, until: Until) -> Iterator[Series]:
    """Train once on all places at the same time."""
    inputs, launcher, guard = means
    logger.info("training on %s", "; ".join(map(", ".join, places)))
    own, left_s = _sized(plan, len(places[0])), until.end_s - time.monotonic()
    if isinstance(own, str) or left_s < SHORTEST_S:  # says nothing about the nodes
        words = own if isinstance(own, str) else until.words
        none = {"failed": False, "tried": False}
        yield from (_series(hosts, reason=words).model_copy(update=none) for hosts in places)
        return
    limits = own.limits.model_copy(update={"run_s": min(own.limits.run_s, left_s)})
    own = own.model_copy(update={"limits": limits})
    require_training(own, launcher)
    runs, ranks, name = _runs(own, places, folder)
    made = Measurement(runs, ranks, scratch_folder(own, name), inputs, Start(launcher), guard)
    _ = made.data
    for hosts, run, record in zip(places, runs, made.make() or (), strict=True):
        yield _of_record(hosts, run, record)


def _runs(plan: RunPlan, places: Sequence[Place], folder: Path) -> tuple[tuple[Run, ...], Ranks, str]:
    name = attempt_name()
    shares = [tuple(NodeShare(host=host, cores=()) for host in hosts) for hosts in places]
    runs = tuple(
        Run(
            plan.model_copy(update={"repetition": number}),
            folder / "training" / ("all" if len(own) > 1 else f"node-{own[0].host}"),
            f"{name}-i{number}",
            InstanceShare(instance=number, nodes=own),
        )
        for number, own in enumerate(shares, 1)
    )
    every = tuple(share for own in shares for share in own)
    return runs, Ranks("acceptance", len(every), 1, 1, every), name


def _sized(plan: RunPlan, nodes: int) -> RunPlan | Said:
    """Return the training on some nodes, with the samples per rank of one node or fewer; or why the data allow none."""
    point = plan.point.model_copy(update={"nodes": nodes})
    samples, local = plan.benchmark.data.train_samples, plan.local_batch
    exactly = plan.benchmark.remainder == "refuse"
    fitting = (size for size in range(local, 0, -1) if size * point.ranks <= samples)
    size = next((size for size in fitting if not exactly or samples % (size * point.ranks) == 0), None)
    if size is None:
        return NO_BATCH(benchmark=plan.benchmark.name, samples=samples, ranks=point.ranks)
    return plan.model_copy(update={"point": point.model_copy(update={"global_batch": size * point.ranks})})


def _of_record(hosts: tuple[str, ...], run: Run, record: RunRecord) -> Series:
    setting = f"{record.plan.benchmark.name}, {record.plan.point.ranks} ranks, batch {record.plan.global_batch}"
    if record.outcome not in FINISHED:
        return _series(hosts, setting, reason=f"{record.outcome}: {record.reason}")
    try:
        steps = pd.read_csv(check_raw_file(record, run.folder / RAW / "steps.csv"))
    except (ParseError, OSError, ValueError) as error:
        return _series(hosts, setting, reason=str(error))
    times_s = steps["step_time_s"].to_list()[WARM_STEPS:]
    starts = range(0, len(times_s) - BLOCK_STEPS + 1, BLOCK_STEPS)
    values = tuple(BLOCK_STEPS * record.plan.global_batch / sum(times_s[at : at + BLOCK_STEPS]) for at in starts)
    if len(values) < FEWEST_VALUES:
        least = WARM_STEPS + FEWEST_VALUES * BLOCK_STEPS
        return _series(hosts, setting, reason=TOO_FEW_STEPS(steps=len(steps), least=least))
    return _series(hosts, setting, values)


def _series(hosts: tuple[str, ...], setting: str = "", values: tuple[float, ...] = (), *, reason: str = "") -> Series:
    kind: Kind = "machine" if len(hosts) > 1 else "node"
    return Series(
        kind=kind,
        subject="all nodes" if kind == "machine" else hosts[0],
        nodes=hosts,
        measure=MACHINE if kind == "machine" else NODE,
        unit="samples/s",
        values=values,
        setting=setting,
        reason=reason,
        failed=not values,
    )
