"""Collect all run records into a table of runs and a table of epochs."""

from typing import TYPE_CHECKING

from hpcai.logs import log_to
from hpcai.tables import collect_epochs, collect_runs, write_table

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
records = snakemake.input.records
write_table(collect_runs(records), snakemake.output.runs_csv, snakemake.output.runs)
write_table(collect_epochs(records), snakemake.output.epochs_csv, snakemake.output.epochs)
