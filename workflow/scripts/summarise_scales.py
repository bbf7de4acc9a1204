"""Summarise the runs of each scale, and compare the scales."""

from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.tables import compute_scaling, summarise_scales, write_table

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
runs = pd.read_parquet(snakemake.input.runs)
write_table(summarise_scales(runs), snakemake.output.scales_csv, snakemake.output.scales)
write_table(compute_scaling(runs), snakemake.output.scaling_csv, snakemake.output.scaling)
