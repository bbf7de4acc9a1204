"""Say how the study scales, why, and what its variants change."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.logs import log_to
from hpcai.metrics.scaling_details import detail_scales
from hpcai.metrics.scaling_fits import fit_scaling, trace_scaling
from hpcai.metrics.variant_effects import compare_variants
from hpcai.tables import write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = {name: pd.read_parquet(path) for name, path in snakemake.input.items()}
machine = Machine.model_validate(snakemake.params.machine)
views = [given[name] for name in ("scales", "scores", "communication", "links", "link_fits")]
tables = {
    "scaling_details": detail_scales(*views, machine),
    "scaling_fits": fit_scaling(given["runs"]),
    "scaling_curves": trace_scaling(given["runs"]),
    "variant_effects": compare_variants(given["runs"], given["run_scores"]),
}
write_tables(tables, Path(snakemake.output[0]).parent)
