"""Read the logs of our own MLPerf HPC runs as published ones are read."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.logs import log_to
from hpcai.mlperf_hpc.analysis.own_runs import own_round, read_own_runs
from hpcai.mlperf_hpc.analysis.round_tables import source_tables
from hpcai.tables import write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
runs = read_own_runs(map(Path, [*snakemake.input, *snakemake.params.recorded]))
write_tables(source_tables([own_round(runs)] if runs else []), Path(snakemake.output[0]).parent)
