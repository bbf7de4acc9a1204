"""Write the plan of one run."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.load import write_plan
from hpcai.config.runs import RunPlan
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_plan(RunPlan.model_validate(snakemake.params.plan), Path(snakemake.output.plan))
