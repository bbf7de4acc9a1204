"""The page's sections on predictions: what-if questions, the models behind them, and their errors."""

from hpcai.report.section_specs import SectionSpec, fill_sections

NO_WHAT_IF = "The study requests no prediction of its own training (study key predict), or has no completed run."
NO_KERNELS = "No kernel was timed on this machine (study key predict, kernel_samples)."
NO_BLOCKS = "No fused block was timed on this machine (study key predict, step_blocks)."
NO_SCALES = (
    "No scale of this study can be compared: the study requests no fused blocks (study key predict, step_blocks)."
)
NO_HPL = "The study requests no run of HPL on this machine (study key predict, hpl_tests)."
NOT_MEASURED = (
    "Not measured: this needs a separate measurement, after the report. make predict, or snakemake predict and then "
    "snakemake, measures it and adds it here."
)
"""Shown until the stage `predict` has run."""
WHAT_IF = SectionSpec(
    "predictions",
    "Predictions",
    "Time of the same training at other scales, links, precisions and compressions: modelled, not measured.",
    absent=NO_WHAT_IF,
    unmade=NOT_MEASURED,
)
TRAINING_MODEL = SectionSpec(
    "training-model",
    "Training model",
    "What limits a data-parallel training step according to the published model, and which of its findings are "
    "reproduced.",
    level=3,
)
STEP_BLOCKS = SectionSpec(
    "step-blocks",
    "Steps from their blocks",
    "Training steps as the sum of their fused blocks, timed in the order of a step, beside the same steps whole.",
    level=3,
    absent=NO_BLOCKS,
    unmade=NOT_MEASURED,
)
SCALE_CASES = SectionSpec(
    "scale-cases",
    "Scales from their parts",
    "Each measured scale predicted without its own measurement: timed step, contention, slowest rank, messages.",
    level=3,
    absent=NO_SCALES,
    unmade=NOT_MEASURED,
)
KERNEL_REGRESSORS = SectionSpec(
    "kernel-regressors",
    "Kernel regressors",
    "Accuracy of kernel times estimated from their sizes, and of steps estimated from their kernels, on this machine.",
    level=3,
    absent=NO_KERNELS,
    unmade=NOT_MEASURED,
)
HPL_MODEL = SectionSpec(
    "hpl-model",
    "HPL model",
    "Predictions of the published model for HPL on nodes with GPUs, and which results are reproduced.",
    level=3,
)
HPL_HERE = SectionSpec(
    "hpl-validation",
    "HPL on this machine",
    "Errors of the HPL model: real runs on this machine, and the published ones.",
    level=3,
    absent=NO_HPL,
    unmade=NOT_MEASURED,
)
PREDICTION_SECTIONS = fill_sections(
    WHAT_IF, TRAINING_MODEL, STEP_BLOCKS, SCALE_CASES, KERNEL_REGRESSORS, HPL_MODEL, HPL_HERE
)
"""Predictions of models, separate from measurements."""
