"""The sections of the page on predictions: what if, the models behind it, and how far they are off."""

from hpcai.report import prediction_columns as columns
from hpcai.report.section_specs import SectionSpec, with_figures
from hpcai.report.tables import TableSpec

NO_WHAT_IF = "The study asks for no prediction of its own training (study key predict), or no run of it ended."
NO_KERNELS = "No kernel was timed on this machine (study key predict, kernel_samples)."
NO_HPL = "The study asks for no run of HPL on this machine (study key predict, hpl_tests)."
NOT_MEASURED = (
    "Not measured: it takes a measurement of its own, after the report. make predict, or snakemake predict and then "
    "snakemake, measures it and adds it here."
)
"""Said until the stage `predict` has run."""
WHAT_IF = SectionSpec(
    "predictions",
    "Predictions",
    "What the same training would take at other scales, links, precisions and compressions: modelled, not measured.",
    (
        TableSpec("predictions", "Predictions", columns.PREDICTIONS),
        TableSpec("prediction_accuracy", "Predictions of measured scales", columns.PREDICTION_ACCURACY),
    ),
    absent=NO_WHAT_IF,
    unmade=NOT_MEASURED,
)
TRAINING_MODEL = SectionSpec(
    "training-model",
    "Training model",
    "What limits a data-parallel training step by the published model, and which of its findings come out again.",
    (
        TableSpec("training_networks", "Networks at the baseline", columns.TRAINING_NETWORKS),
        TableSpec("prediction_findings", "Findings of the sources", columns.PREDICTION_FINDINGS),
    ),
    level=3,
)
KERNEL_REGRESSORS = SectionSpec(
    "kernel-regressors",
    "Kernel regressors",
    "How well times of kernels are estimated from their sizes, and steps from their kernels, on this machine.",
    (
        TableSpec("kernel_goals", "Goals of the regressors", columns.KERNEL_GOALS),
        TableSpec("kernel_accuracy", "Accuracy of each kernel", columns.KERNEL_ACCURACY),
        TableSpec("step_stages", "Accuracy of each stage, reference networks", columns.STEP_STAGES),
        TableSpec("step_accuracy", "Accuracy of each step", columns.STEP_ACCURACY, first=("stage", "step")),
    ),
    level=3,
    absent=NO_KERNELS,
    unmade=NOT_MEASURED,
)
HPL_MODEL = SectionSpec(
    "hpl-model",
    "HPL model",
    "What the published model says of HPL on nodes with GPUs, and what comes out again.",
    (
        TableSpec("hpl_published", "Published runs (Table 2 of Hu and Lu 2021)", columns.HPL_PUBLISHED),
        TableSpec("hpl_answers", "Which machine a target needs", columns.HPL_ANSWERS),
    ),
    level=3,
)
HPL_HERE = SectionSpec(
    "hpl-validation",
    "HPL on this machine",
    "How far the model of HPL is off: real runs on this machine, and the published ones.",
    (
        TableSpec("hpl_validation", "Runs on this machine", columns.HPL_VALIDATION),
        TableSpec("hpl_rates", "Measured rates of the routines", columns.HPL_RATES),
    ),
    level=3,
    absent=NO_HPL,
    unmade=NOT_MEASURED,
)
PREDICTION_SECTIONS = with_figures(WHAT_IF, TRAINING_MODEL, KERNEL_REGRESSORS, HPL_MODEL, HPL_HERE)
"""What models say, beside what was measured."""
