"""Accept a machine: measure every node alone, pairs and rings of nodes, and short trainings, in one job.

Nodes work at the same time wherever they share nothing. What fails is a result: the other nodes go on without the nodes
that it shows to be unfit. Each stage ends in time, because a job that Slurm ends at its limit loses what it measured.
"""

import logging
import os
import time
from collections.abc import Sequence

from hpcai.config.machine import this_node
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.measure.acceptance_links import measure_links
from hpcai.measure.acceptance_nodes import Asked, Clock, measure_alone, measure_shared
from hpcai.measure.acceptance_training import train_for_acceptance
from hpcai.measure.claim import at_work
from hpcai.measure.container import require_modules
from hpcai.measure.provenance import code_facts
from hpcai.metrics.acceptance import unfit_nodes
from hpcai.records.acceptance import Measured, Series, utc_now
from hpcai.slurm.allocation import find_allocation

logger = logging.getLogger(__name__)
TRAINING_END = 0.95
"""Share of the acceptance's time limit at which the last training ends."""
NEEDS_A_JOB = Message(
    "acceptance.needs_a_job",
    "found no job of Slurm, expected one of {nodes} nodes; start it with a profile for Slurm or in an allocation, or "
    "set acceptance.nodes of the study to 1",
)
TOO_FEW_NODES = Message(
    "acceptance.too_few_nodes", "found {found} nodes in the job, expected {expected}; correct acceptance.nodes"
)


def measure_machine(asked: Asked) -> Measured:
    """Measure all nodes, and return everything that was found.

    Raises
    ------
    LaunchError
        If the job has too few nodes, or a module of the machine file is not loaded.
    RunInterruptedError
        If a signal ended it.
    """
    machine, settings = asked.plan.machine, asked.settings
    require_modules(machine.modules)
    hosts = hosts_to_accept(settings.nodes or machine.nodes)
    started_utc, series = utc_now(), list[Series]()
    clock = Clock(time.monotonic(), settings.limit_s)
    with at_work("acceptance", asked.folder, logger.info) as guard:
        series += measure_alone(asked, hosts, clock)
        series += measure_shared(asked, _fit(hosts, series), clock)
        series += measure_links(asked, _fit(hosts, series), clock)
        means = (asked.inputs, asked.launcher, guard)
        end = clock.until(TRAINING_END)
        series += train_for_acceptance(asked.plan, settings, _fit(hosts, series), means, asked.folder, end)
    commit, dirty, lock = code_facts()
    return Measured(
        machine=machine.name,
        machine_nodes=machine.nodes,
        hosts=hosts,
        launcher=asked.launcher,
        slurm_job=os.environ.get("SLURM_JOB_ID", ""),
        started_utc=started_utc,
        ended_utc=utc_now(),
        settings=settings,
        code={"commit": commit, "dirty": dirty, "lock_sha256": lock},
        series=tuple(series),
    )


def hosts_to_accept(nodes: int) -> tuple[str, ...]:
    """Return the nodes: this one, or the first ones of Slurm's job."""
    allocation = find_allocation()
    if allocation is None and nodes > 1:
        raise LaunchError(at("acceptance", NEEDS_A_JOB(nodes=nodes)))
    if allocation is None:
        return (this_node(),)
    if len(allocation.nodes) < nodes:
        raise LaunchError(at("acceptance", TOO_FEW_NODES(found=len(allocation.nodes), expected=nodes)))
    return allocation.nodes[:nodes]


def _fit(hosts: Sequence[str], series: Sequence[Series]) -> tuple[str, ...]:
    """Return the nodes that can go on; the others are broken already."""
    unfit = unfit_nodes(series)
    if lost := [host for host in hosts if host in unfit]:
        logger.warning("goes on without %s", ", ".join(lost))
    return tuple(host for host in hosts if host not in unfit)
