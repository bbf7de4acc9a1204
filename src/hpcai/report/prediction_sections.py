"""The sections of the page on predictions: what if, the models behind it, and how far they are off."""

from hpcai.report.section_specs import SectionSpec, fill_sections

NO_WHAT_IF = "The study asks for no prediction of its own training (study key predict), or no run of it ended."
NO_KERNELS = "No kernel was timed on this machine (study key predict, kernel_samples)."
NO_BLOCKS = "No fused block was timed on this machine (study key predict, step_blocks)."
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
    absent=NO_WHAT_IF,
    unmade=NOT_MEASURED,
)
TRAINING_MODEL = SectionSpec(
    "training-model",
    "Training model",
    "What limits a data-parallel training step by the published model, and which of its findings come out again.",
    level=3,
)
STEP_BLOCKS = SectionSpec(
    "step-blocks",
    "Steps from their blocks",
    "Training steps as the sum of their fused blocks, timed one by one on this machine, beside the same steps whole.",
    level=3,
    absent=NO_BLOCKS,
    unmade=NOT_MEASURED,
)
KERNEL_REGRESSORS = SectionSpec(
    "kernel-regressors",
    "Kernel regressors",
    "How well times of kernels are estimated from their sizes, and steps from their kernels, on this machine.",
    level=3,
    absent=NO_KERNELS,
    unmade=NOT_MEASURED,
)
HPL_MODEL = SectionSpec(
    "hpl-model",
    "HPL model",
    "What the published model says of HPL on nodes with GPUs, and what comes out again.",
    level=3,
)
HPL_HERE = SectionSpec(
    "hpl-validation",
    "HPL on this machine",
    "How far the model of HPL is off: real runs on this machine, and the published ones.",
    level=3,
    absent=NO_HPL,
    unmade=NOT_MEASURED,
)
PREDICTION_SECTIONS = fill_sections(WHAT_IF, TRAINING_MODEL, STEP_BLOCKS, KERNEL_REGRESSORS, HPL_MODEL, HPL_HERE)
"""What models say, beside what was measured."""
