"""Score every run, every scale and the machine."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.logs import log_to
from hpcai.metrics.result_scores import name_datasets, name_divisions, score_machines, score_scales
from hpcai.metrics.trial_scores import score_trials
from hpcai.tables import read_records, write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
runs, scales, work, power = (pd.read_parquet(snakemake.input[name]) for name in ("runs", "scales", "work", "power"))
machine = Machine.model_validate(snakemake.params.machine)
run_scores = score_trials(runs, work, power, machine)
records = read_records(snakemake.input.records)
scores = score_scales(run_scores, runs, scales, name_datasets(records), machine, divisions=name_divisions(records))
tables = {"run_scores": run_scores, "scores": scores, "machine_scores": score_machines(scores)}
write_tables(tables, Path(snakemake.output[0]).parent)
