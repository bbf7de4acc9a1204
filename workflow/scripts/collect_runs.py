"""Collect all run records into tables of runs, of epochs and of verdicts."""

from typing import TYPE_CHECKING

from hpcai.logs import log_to
from hpcai.tables import collect_epochs, collect_runs, collect_verdicts, write_table

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
records = snakemake.input.records
write_table(collect_runs(records), snakemake.output.runs_csv, snakemake.output.runs)
write_table(collect_epochs(records), snakemake.output.epochs_csv, snakemake.output.epochs)
write_table(collect_verdicts(records), snakemake.output.verdicts_csv, snakemake.output.verdicts)
