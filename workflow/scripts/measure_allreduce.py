"""Measure the allreduce for the study's numbers of ranks, with the same launcher."""

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.runs import engine_of_link
from hpcai.core.logs import log_to
from hpcai.core.machine_lock import machine_to_itself
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.machine.ceilings.measures import link, report_quietly
from hpcai.measure.container import contained_python

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
ranks = Ranks("allreduce", asked.nodes, asked.ranks_per_node, asked.cores_per_rank)
with machine_to_itself(logging.getLogger("hpcai.characterise").info):
    launch = partial(launch_command, snakemake.resources.launcher, ranks, [])
    python = partial(contained_python, asked.get("software"))
    # Not a parameter of the rule: a new one would cause a new measurement.
    engine = engine_of_link(snakemake.wildcards.link)
    report = report_quietly(link(launch, ranks.cores_per_rank, asked.device, python, engine), snakemake.config)
Path(snakemake.output.report).write_text(report)
