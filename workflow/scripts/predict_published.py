"""Evaluate the published models: the figures of their sources, their findings, and answers about machines."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.machine import Machine
from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import join_tables, write_tables
from hpcai.predict.hpl.answers import answer_questions
from hpcai.predict.hpl.assumptions import compare_table_2
from hpcai.predict.hpl.figures_data import sweep_figures
from hpcai.predict.hpl.findings import list_findings
from hpcai.predict.hpl_settings import read_machine
from hpcai.predict.training.findings import judge_findings
from hpcai.predict.training.sweeps import predict_networks, sweep_training

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
own = Machine.model_validate(snakemake.params.machine)
machines = [own, *(read_machine(Path(file)) for file in snakemake.input.machines)]
sweeps = sweep_figures()
tables = {
    "hpl_sweeps": sweeps,
    "hpl_published": compare_table_2(),
    "hpl_answers": join_tables([answer_questions(machine) for machine in machines]),
    "training_networks": predict_networks(),
    "training_sweeps": sweep_training(),
    "prediction_findings": join_tables([list_findings(sweeps), judge_findings()]),
}
write_tables(tables, Path(snakemake.output[0]).parent)
