"""Join the tables of all rounds and of our own runs, and analyse them together."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, join_files

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_tables(analyse_tables(join_files(map(Path, snakemake.input))), Path(snakemake.output[0]).parent)
