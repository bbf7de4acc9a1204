"""Import a published round as a results folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.results_folder import read_rounds, write_import

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
folder = Path(snakemake.output.study).parent
rounds = read_rounds([Path(snakemake.params.source)], name=snakemake.params.name)
write_import(rounds, folder, write_tables)
