"""Read the logs of our own MLPerf HPC runs like published ones."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.own_runs import own_round, read_own_groups, read_own_runs
from hpcai.mlperf_hpc.analysis.round_tables import source_tables
from hpcai.records.weak import GROUP

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
files = [Path(file) for file in [*snakemake.input, *snakemake.params.recorded]]
runs = read_own_runs(file for file in files if file.name != GROUP)
groups = read_own_groups(file for file in files if file.name == GROUP)
write_tables(source_tables([own_round(runs, groups)] if runs or groups else []), Path(snakemake.output[0]).parent)
