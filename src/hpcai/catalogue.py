"""What the reports show: every figure and every page of a table, with its heading and what it is made from.

The one place of these facts. It imports nothing that draws, because the workflow reads it whenever it starts.
"""

from dataclasses import dataclass
from typing import Literal

Stage = Literal["analyse", "views", "scores", "rounds", "published", "predict"]
"""Stage of the workflow that shows it; ``published``: models of others, for which nothing is measured."""


@dataclass(frozen=True)
class FigureEntry:
    """One figure.

    Attributes
    ----------
    stage, category
        Where it is drawn, and where Snakemake's report lists it.
    title
        Its heading.
    tables
        Names of the tables that it is drawn from, in the order of the drawing function's parameters.
    """

    stage: Stage
    category: str
    title: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class PageEntry:
    """One table as a page of its own.

    Attributes
    ----------
    stage, category
        Where it is written, and where Snakemake's report lists it; a page without a category is not listed.
    label
        What the list calls it.
    title, note
        Its heading, and a sentence on what the numbers are.
    """

    stage: Stage
    category: str
    label: str
    title: str
    note: str


FIGURES: dict[str, FigureEntry] = {
    "time_to_train": FigureEntry("analyse", "Summary", "Time to train", ("runs", "scales")),
    "quality": FigureEntry("analyse", "Summary", "Quality after each epoch", ("epochs", "runs")),
    "loss": FigureEntry("analyse", "Summary", "Training loss after each epoch", ("epochs", "runs")),
    "time_shares": FigureEntry("analyse", "Throughput", "Shares of the wall time", ("scales",)),
    "throughput": FigureEntry("analyse", "Throughput", "Throughput", ("runs", "scales")),
    "step_times": FigureEntry("analyse", "Throughput", "Step times", ("epochs",)),
    "staging": FigureEntry("analyse", "I/O", "Staging", ("runs",)),
    "lanes": FigureEntry("views", "Communication", "One training step, lane by lane", ("lanes", "captures")),
    "phases": FigureEntry("views", "Communication", "Phases of the exchange", ("phases", "communication", "captures")),
    "messages": FigureEntry(
        "views", "Communication", "Bandwidth against message size", ("messages", "links", "link_fits", "captures")
    ),
    "links": FigureEntry("views", "Communication", "Allreduce of the machine", ("links", "link_fits")),
    "io": FigureEntry("views", "I/O", "Reading while training", ("io", "ceilings", "captures")),
    "kernels": FigureEntry("views", "Kernels", "Kernel time by category", ("kernels", "captures")),
    "ceilings": FigureEntry("views", "Kernels", "Measured ceilings of the machine", ("ceilings",)),
    "scores": FigureEntry("scores", "Scores", "FLOP/s and VFLOP/s", ("run_scores", "scores")),
    "ranking": FigureEntry("scores", "Scores", "Ranked results", ("ranking",)),
    "variant_effects": FigureEntry("scores", "Scaling", "Effect of variants", ("variant_effects",)),
    "comparison": FigureEntry("scores", "Scores", "Scores against the earlier result", ("comparison",)),
    "history": FigureEntry("scores", "Scores", "Scores over studies", ("history",)),
    "mlperf_time_shares": FigureEntry(
        "rounds",
        "MLPerf HPC rounds",
        "Shares of the time to solution (Fig. 1 of the MLPerf HPC paper)",
        ("mlperf_results",),
    ),
    "mlperf_scaling": FigureEntry(
        "rounds",
        "MLPerf HPC rounds",
        "Epochs, throughput and compute time (Fig. 2 of the MLPerf HPC paper)",
        ("mlperf_results",),
    ),
    "mlperf_principal": FigureEntry(
        "rounds",
        "MLPerf HPC rounds",
        "Epochs and epoch throughput of each run (Fig. 3 of the MLPerf HPC paper)",
        ("mlperf_runs", "mlperf_principal", "mlperf_results"),
    ),
    "mlperf_weak": FigureEntry("rounds", "MLPerf HPC rounds", "Weak scaling: models per minute", ("mlperf_weak",)),
    "mlperf_prediction": FigureEntry(
        "rounds",
        "MLPerf HPC rounds",
        "Joined curves, and their errors",
        ("mlperf_curves", "mlperf_predictions", "mlperf_leave_one_out", "mlperf_prediction_errors"),
    ),
    "training_hardware": FigureEntry("published", "Predictions", "Step time over the hardware", ("training_sweeps",)),
    "training_batch": FigureEntry("published", "Predictions", "Step time over the batch", ("training_sweeps",)),
    "hpl_efficiency": FigureEntry(
        "published", "Predictions", "Efficiency over PCIe rate, block and GPUs", ("hpl_sweeps",)
    ),
    "hpl_host_link": FigureEntry(
        "published", "Predictions", "PCIe rate that a target efficiency needs", ("hpl_sweeps",)
    ),
    "hpl_network": FigureEntry("published", "Predictions", "Rate over the network", ("hpl_sweeps",)),
    "what_if": FigureEntry(
        "predict", "Predictions", "What if: measured and predicted times", ("predictions", "scales")
    ),
    "kernel_errors": FigureEntry(
        "predict", "Predictions", "Errors of the kernel regressors", ("kernel_errors", "kernel_accuracy")
    ),
    "step_accuracy": FigureEntry("predict", "Predictions", "Predicted and measured steps", ("step_accuracy",)),
    "hpl_validation": FigureEntry(
        "predict", "Predictions", "HPL on this machine, predicted and measured", ("hpl_validation", "hpl_published")
    ),
}
"""Pictures, by the name of the file and of the caption."""
CHARTS: dict[str, FigureEntry] = {
    "roofline": FigureEntry(
        "scores", "Roofline", "HPC-AI roofline", ("roofline_points", "roofline_ceilings", "roofline_moves")
    ),
    "memory_roofline": FigureEntry("scores", "Roofline", "Memory roofline", ("roofline_points", "roofline_ceilings")),
    "published_roofline": FigureEntry(
        "scores",
        "Roofline",
        "Published results under their own roofs",
        ("published_points", "published_ceilings", "published_moves"),
    ),
    "scaling": FigureEntry(
        "scores",
        "Scaling",
        "Speed-up and efficiency",
        ("scaling", "scaling_details", "scaling_curves", "predictions"),
    ),
}
"""Charts that answer to the mouse, likewise."""
_MLPERF = (
    "Computed from published logs and from those of our own runs (column method). Empty: not known, or not defined."
)
_REASON = "Empty: not measured, or not defined (the column reason says which)."
PAGES: dict[str, PageEntry] = {
    "runs": PageEntry(
        "analyse",
        "Summary",
        "Table of runs",
        "All runs",
        "Measured; one row per run, those that broke down included. Empty: not measured.",
    ),
    "scales": PageEntry(
        "analyse",
        "Summary",
        "Table of scales",
        "All scales",
        "Means over the runs of a scale, with n beside them; measured. Empty: not measured.",
    ),
    "verdicts": PageEntry(
        "analyse",
        "Rules",
        "Table of verdicts",
        "What the rules say",
        "Judged by the supervisor when each run ended; what no record can tell is not judged.",
    ),
    "efficiency": PageEntry(
        "analyse",
        "Summary",
        "Table of resources",
        "What each run asked for and used",
        "Measured, but for what the column source calls declared. Empty: not known; reason says why.",
    ),
    "communication": PageEntry(
        "views",
        "Communication",
        "Table of communication",
        "Communication of the profiled runs",
        "Measured over the profiled steps of rank 0's timeline. Empty: not measured.",
    ),
    "io": PageEntry(
        "views",
        "I/O",
        "Table of I/O",
        "What Darshan saw",
        "Measured over the profiled runs, one row for each folder of data.",
    ),
    "work": PageEntry(
        "views",
        "Kernels",
        "Table of floating-point work",
        "Floating-point work and rates",
        "Counted by formula, by compiled step, by hardware counters; rates are those of the timed runs.",
    ),
    "kernels": PageEntry(
        "views",
        "Kernels",
        "Table of kernels",
        "Kernel time by category",
        "Measured over the profiled steps of rank 0.",
    ),
    "ceilings": PageEntry(
        "views",
        "Kernels",
        "Table of ceilings",
        "Ceilings of this machine",
        "Measured: the best of several ways, sizes and repeats.",
    ),
    "characterisation": PageEntry(
        "views",
        "Characterisation",
        "Memory, network and I/O bandwidth",
        "Memory, network and I/O bandwidth of each benchmark",
        "As Table VII of the MLPerf HPC paper; each number with its method, or why it was not measured.",
    ),
    "power": PageEntry(
        "views",
        "Characterisation",
        "Table of power",
        "Power of the profiled runs",
        "Measured over the training steps by the meters that the node has.",
    ),
    "advice": PageEntry(
        "views",
        "Characterisation",
        "Advice",
        "What the numbers advise",
        "Each sentence with the numbers that it stands on.",
    ),
    "inconsistencies": PageEntry(
        "views",
        "Characterisation",
        "Inconsistencies",
        "Rates above their roof",
        "Either the sample or the ceiling is wrong; both are shown.",
    ),
    "captures": PageEntry(
        "views",
        "Characterisation",
        "Table of captures",
        "What was captured, and why not",
        "One row for each profile of each point.",
    ),
    "run_scores": PageEntry(
        "scores", "Scores", "Table of scores of all runs", "Scores of all runs", f"One row per timed run. {_REASON}"
    ),
    "scores": PageEntry(
        "scores",
        "Scores",
        "Table of scores",
        "Scores",
        f"One row per benchmark, variant and scale. {_REASON}",
    ),
    "ranking": PageEntry(
        "scores",
        "Scores",
        "Table of ranks",
        "Ranking",
        "Like with like only: one list for each workload, dataset, target and exponent.",
    ),
    **{
        name: PageEntry("rounds", "", title, title, _MLPERF)
        for name, title in {
            "mlperf_runs": "Runs of MLPerf HPC",
            "mlperf_weak": "Weak scaling of MLPerf HPC",
            "mlperf_verdicts": "Verdicts on MLPerf HPC logs",
            "mlperf_repairs": "Repairs of MLPerf HPC logs",
            "mlperf_systems": "Systems of MLPerf HPC results",
            "mlperf_results": "Results of MLPerf HPC",
            "mlperf_efficiencies": "Scaling efficiencies of MLPerf HPC results",
            "mlperf_principal": "Principal axes of the runs of MLPerf HPC results",
            "mlperf_curves": "Joined curves of MLPerf HPC results",
            "mlperf_predictions": "Predicted configurations of MLPerf HPC",
            "mlperf_leave_one_out": "Each MLPerf HPC result predicted from the others",
            "mlperf_prediction_errors": "How far predictions are off",
        }.items()
    },
}
"""Pages of tables, by the name of the table."""


def figures_of(stage: Stage) -> dict[str, FigureEntry]:
    """Return the figures of a stage by their names, without its charts."""
    return {name: one for name, one in FIGURES.items() if one.stage == stage}


def tables_shown(stage: Stage) -> list[str]:
    """Return the names of all tables that a stage draws or shows, each once."""
    shown = [
        *[table for one in [*FIGURES.values(), *CHARTS.values()] if one.stage == stage for table in one.tables],
        *[name for name, page in PAGES.items() if page.stage == stage],
    ]
    return list(dict.fromkeys(shown))
