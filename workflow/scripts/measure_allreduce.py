"""Measure the allreduce of as many ranks as the study's runs have, started as they are."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.characterise.allreduce import measure_allreduce
from hpcai.config.runs import RunPlan
from hpcai.logs import log_to
from hpcai.measure.launcher import launch_command

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
plan = RunPlan.model_validate(snakemake.params.plan)
launch = launch_command(snakemake.resources.launcher, plan, [])
report = measure_allreduce(launch, plan.machine.cores_per_rank, plan.machine.device.kind)
Path(snakemake.output.report).write_text(report)
