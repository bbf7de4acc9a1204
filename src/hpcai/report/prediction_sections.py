"""The sections of the page on predictions: what if, the models behind it, and how far they are off."""

from hpcai.report import prediction_columns as columns
from hpcai.report.section_specs import FigureSpec, SectionSpec
from hpcai.report.tables import TableSpec

NO_WHAT_IF = "The study asks for no prediction of its own training (study key predict), or no run of it ended."
NO_KERNELS = "No kernel was timed on this machine (study key predict, kernel_samples)."
WHAT_IF = SectionSpec(
    "predictions",
    "Predictions",
    "What the same training would take at other scales, links, precisions and compressions: modelled, not measured.",
    (
        FigureSpec("what_if", "What if: measured and predicted times", ("predictions", "scales")),
        TableSpec("predictions", "Predictions", columns.PREDICTIONS),
        TableSpec("prediction_accuracy", "Predictions of measured scales", columns.PREDICTION_ACCURACY),
    ),
    absent=NO_WHAT_IF,
)
TRAINING_MODEL = SectionSpec(
    "training-model",
    "Training model",
    "What limits a data-parallel training step by the published model, and which of its findings come out again.",
    (
        FigureSpec("training_hardware", "Step time over the hardware", ("training_sweeps",)),
        FigureSpec("training_batch", "Step time over the batch", ("training_sweeps",)),
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
        FigureSpec("kernel_errors", "Errors of the kernel regressors", ("kernel_errors", "kernel_accuracy")),
        TableSpec("kernel_goals", "Goals of the regressors", columns.KERNEL_GOALS),
        TableSpec("kernel_accuracy", "Accuracy of each kernel", columns.KERNEL_ACCURACY),
        FigureSpec("step_accuracy", "Predicted and measured steps", ("step_accuracy",)),
        TableSpec("step_stages", "Accuracy of each stage, reference networks", columns.STEP_STAGES),
        TableSpec("step_accuracy", "Accuracy of each step", columns.STEP_ACCURACY, first=("stage", "step")),
    ),
    level=3,
    absent=NO_KERNELS,
)
HPL_MODEL = SectionSpec(
    "hpl-model",
    "HPL model",
    "What the published model says of HPL on nodes with GPUs, what comes out again, and how it does on this machine.",
    (
        FigureSpec("hpl_efficiency", "Efficiency over PCIe rate, block and GPUs", ("hpl_sweeps",)),
        FigureSpec("hpl_host_link", "PCIe rate that a target efficiency needs", ("hpl_sweeps",)),
        FigureSpec("hpl_network", "Rate over the network", ("hpl_sweeps",)),
        TableSpec("hpl_published", "Published runs (Table 2 of Hu and Lu 2021)", columns.HPL_PUBLISHED),
        FigureSpec(
            "hpl_validation", "HPL on this machine, predicted and measured", ("hpl_validation", "hpl_published")
        ),
        TableSpec("hpl_validation", "Runs on this machine", columns.HPL_VALIDATION),
        TableSpec("hpl_rates", "Measured rates of the routines", columns.HPL_RATES),
        TableSpec("hpl_answers", "Which machine a target needs", columns.HPL_ANSWERS),
    ),
    level=3,
)
PREDICTION_SECTIONS = (WHAT_IF, TRAINING_MODEL, KERNEL_REGRESSORS, HPL_MODEL)
"""What models say, beside what was measured."""
