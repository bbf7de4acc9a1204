"""Predict training steps as the sum of their measured blocks, next to the same steps measured."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.disturbance import Tolerance
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import write_tables
from hpcai.predict.steps.accuracy import tabulate_blocks
from hpcai.predict.steps.regression import judge_blocks
from hpcai.predict.steps.report import BlocksReport
from hpcai.predict.steps.validation import judge_allreduces
from hpcai.records.files import read_part

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
reports = {file: read_part(BlocksReport, Path(file)) for file in snakemake.input.get("steps", [])}
measured = tabulate_blocks(reports, Tolerance.model_validate(snakemake.params.tolerance))
tables = judge_blocks(measured, list(reports.values()), snakemake.params.seed)
tables["allreduce_errors"] = judge_allreduces(read_parquet(Path(snakemake.input.links)))
write_tables(tables, Path(snakemake.output[0]).parent)
