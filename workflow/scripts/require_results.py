"""Fail with an explanation if all runs of a point failed; otherwise record that all points have results."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.campaign.outcomes import write_outcomes
from hpcai.core.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_outcomes(snakemake.input.records, snakemake.input.groups, Path(snakemake.output.outcomes))
