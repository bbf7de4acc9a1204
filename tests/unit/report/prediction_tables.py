"""Tables of the predictors with the columns that they really have; those that need a measurement are empty."""

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.machine import Machine
from hpcai.machine.hpl.blas_rates import BlasReport
from hpcai.machine.hpl.report import HplReport
from hpcai.predict.hpl.answers import answer_questions
from hpcai.predict.hpl.assumptions import compare_table_2
from hpcai.predict.hpl_parts import compare_parts
from hpcai.predict.hpl_validation import validate_hpl
from hpcai.predict.kernels.accuracy import collect_accuracy, collect_errors, summarise_goals
from hpcai.predict.kernels.step_accuracy import judge_steps, summarise_stages
from hpcai.predict.training.findings import judge_findings
from hpcai.predict.training.sweeps import predict_networks
from hpcai.predict.what_if.accuracy import PREDICTION_ACCURACY_COLUMNS
from hpcai.predict.what_if.answers import PREDICTION_COLUMNS

BLOCKS = ("block_steps", "block_times", "block_samples", "block_kinds", "allreduce_errors", "scale_cases")


def make_tables(machine: Machine) -> dict[str, pd.DataFrame]:
    rates, accuracy, steps = BlasReport().frame("rates.json"), collect_accuracy([]), judge_steps([], {})
    return {
        "hpl_published": compare_table_2(),
        "hpl_answers": answer_questions(machine),
        "hpl_rates": rates,
        "hpl_validation": validate_hpl(HplReport().frame("hpl.json"), rates),
        "hpl_parts": compare_parts(HplReport().frame("hpl.json"), rates),
        "training_networks": predict_networks(),
        "prediction_findings": judge_findings(),
        **{name: pd.DataFrame(columns=list(columns_of(name))) for name in BLOCKS},
        "kernel_accuracy": accuracy,
        "kernel_goals": summarise_goals(accuracy),
        "kernel_errors": collect_errors([]),
        "step_accuracy": steps,
        "step_stages": summarise_stages(steps),
        "predictions": pd.DataFrame(columns=list(PREDICTION_COLUMNS)),
        "prediction_accuracy": pd.DataFrame(columns=list(PREDICTION_ACCURACY_COLUMNS)),
    }
