"""Fit a regressor to every measured kernel, and test it on unseen cases."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import join_tables, write_tables
from hpcai.predict.kernels.accuracy import summarise_goals
from hpcai.predict.kernels.fit import fit_kernels
from hpcai.predict.kernels.regressor import KernelRegressors
from hpcai.records.files import write_sealed

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
times = join_tables([read_parquet(path) for path in snakemake.input.times])
regressors, accuracy, errors = fit_kernels(times, snakemake.params.seed)
stored = KernelRegressors(regressors=regressors, source=", ".join(snakemake.input.times))
write_sealed(stored, Path(snakemake.output.regressors))
tables = {
    "kernel_accuracy": accuracy,
    "kernel_errors": errors,
    "kernel_goals": summarise_goals(accuracy),
}
write_tables(tables, Path(snakemake.output.tables[0]).parent)
