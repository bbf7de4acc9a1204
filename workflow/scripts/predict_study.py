"""Predict other scales, links, precisions and compressions from the tables of the study."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.machine import Machine
from hpcai.config.prediction import Prediction
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.predict.kernels.regressor import KernelRegressors
from hpcai.predict.steps.report import BlocksReport
from hpcai.predict.training.layers import LayerList
from hpcai.predict.what_if import StudyModels, StudyTables, fit_published_epochs, predict_study
from hpcai.records.files import read_part

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given, asked = snakemake.input, snakemake.params
names = ("scales", "scores", "runs", "link_fits", "ceilings")
tables = StudyTables(**{name: read_parquet(given[name]) for name in names})
layers = [read_part(LayerList, Path(file)) for file in given.layers]
regressors = read_part(KernelRegressors, Path(given.regressors)).regressors
steps = [step for file in given.get("steps", []) for step in read_part(BlocksReport, Path(file)).steps]
rounds = [read_parquet(given[name]) for name in ("mlperf_results", "mlperf_systems")]
models = StudyModels(
    layers={one.name: one for one in layers},
    machine=Machine.model_validate(asked.machine),
    regressors=regressors,
    steps=steps,
    epoch_curves=fit_published_epochs(*rounds, read_reference_epochs(), tables.scales),
)
predictions = predict_study(tables, models, Prediction.model_validate(asked.predict))
write_tables(predictions, Path(snakemake.output[0]).parent)
