"""Predict each measured scale without its own measurement, from its parts."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import write_tables
from hpcai.predict.scales.held_out import predict_cases
from hpcai.predict.scales.measured import ScaleFiles

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
files = ScaleFiles(
    *(Path(given[name]) for name in ("scales", "links", "contention")), next(map(Path, given.get("steps", [])), None)
)
write_tables({"scale_cases": predict_cases(files, Path("results/runs"))}, Path(snakemake.output[0]).parent)
