"""Measure all nodes for the acceptance of the machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.acceptance import Acceptance
from hpcai.config.runs import RunPlan
from hpcai.core.logs import log_to
from hpcai.measure.acceptance import measure_machine
from hpcai.measure.acceptance_nodes import Asked
from hpcai.measure.inputs import Inputs
from hpcai.records.files import write_sealed

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given, asked = snakemake.input, snakemake.params
output = Path(snakemake.output.measurements)
inputs = Inputs((), Path(given.manifest), Path(given.pack) if given.get("pack") else None)
plan, settings = RunPlan.model_validate(asked.plan), Acceptance.model_validate(asked.settings)
found = measure_machine(Asked(plan, settings, inputs, snakemake.resources.launcher, output.parent))
write_sealed(found, output)
