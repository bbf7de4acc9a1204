"""Compare the summed kernels of the reference networks with their measured training steps, and with our own runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.disturbance import Tolerance
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.machine.kernels.reference_steps import read_reference_steps
from hpcai.metrics.run_tables import join_tables, write_tables
from hpcai.predict.kernels.regressor import KernelRegressors
from hpcai.predict.kernels.step_accuracy import collect_steps, judge_steps, summarise_stages
from hpcai.records.files import read_part

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
stored = read_part(KernelRegressors, Path(given.regressors))
tolerance = Tolerance.model_validate(snakemake.params.tolerance)
read = ((file, read_reference_steps(Path(file), tolerance)) for file in given.get("steps", []))
steps = [step for file, found in read for step in collect_steps(*found, file)]
accuracy = judge_steps(steps, stored.regressors)
tables = {
    "step_accuracy": join_tables([accuracy, read_parquet(given.own)]),
    "step_stages": summarise_stages(accuracy),
}
write_tables(tables, Path(snakemake.output[0]).parent)
