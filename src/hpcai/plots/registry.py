"""All figures of the report by their topic, and which tables they need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from hpcai.plots.ceilings import plot_ceilings
from hpcai.plots.communication import plot_phases
from hpcai.plots.comparison import plot_comparison
from hpcai.plots.curves import plot_loss, plot_quality, plot_step_times
from hpcai.plots.history import plot_history
from hpcai.plots.hpl import plot_hpl_efficiency, plot_hpl_host_link, plot_hpl_network
from hpcai.plots.hpl_validation import plot_hpl_validation
from hpcai.plots.kernel_accuracy import plot_kernel_errors
from hpcai.plots.kernels import plot_kernels
from hpcai.plots.lanes import plot_lanes
from hpcai.plots.messages import plot_links, plot_messages
from hpcai.plots.mlperf_prediction import plot_mlperf_prediction
from hpcai.plots.mlperf_principal import plot_mlperf_principal
from hpcai.plots.mlperf_scaling import plot_mlperf_scaling
from hpcai.plots.mlperf_time_shares import plot_mlperf_time_shares
from hpcai.plots.mlperf_weak import plot_mlperf_weak
from hpcai.plots.ranking import plot_ranking
from hpcai.plots.rates import plot_staging, plot_throughput
from hpcai.plots.scores import plot_scores
from hpcai.plots.step_accuracy import plot_step_accuracy
from hpcai.plots.storage import plot_io
from hpcai.plots.times import plot_time_shares, plot_time_to_train
from hpcai.plots.training_batch import plot_training_batch
from hpcai.plots.training_model import plot_training_hardware
from hpcai.plots.variant_effects import plot_variant_effects
from hpcai.plots.what_if import plot_what_if


@dataclass(frozen=True)
class FigureSpec:
    """One figure: how it is drawn, and from which tables."""

    draw: Callable[..., Figure]
    tables: tuple[str, ...]


STUDY_FIGURES: dict[str, FigureSpec] = {
    "time_to_train": FigureSpec(plot_time_to_train, ("runs", "scales")),
    "quality": FigureSpec(plot_quality, ("epochs", "runs")),
    "loss": FigureSpec(plot_loss, ("epochs", "runs")),
    "time_shares": FigureSpec(plot_time_shares, ("scales",)),
    "throughput": FigureSpec(plot_throughput, ("runs", "scales")),
    "step_times": FigureSpec(plot_step_times, ("epochs",)),
    "staging": FigureSpec(plot_staging, ("runs",)),
}
"""What the timed runs show."""
CHARACTERISATION_FIGURES: dict[str, FigureSpec] = {
    "lanes": FigureSpec(plot_lanes, ("lanes", "captures")),
    "phases": FigureSpec(plot_phases, ("phases", "communication", "captures")),
    "messages": FigureSpec(plot_messages, ("messages", "links", "link_fits", "captures")),
    "links": FigureSpec(plot_links, ("links", "link_fits")),
    "kernels": FigureSpec(plot_kernels, ("kernels", "captures")),
    "io": FigureSpec(plot_io, ("io", "ceilings", "captures")),
    "ceilings": FigureSpec(plot_ceilings, ("ceilings",)),
}
"""What profiled runs and the measured ceilings of the machine show."""
SCORE_FIGURES: dict[str, FigureSpec] = {
    "scores": FigureSpec(plot_scores, ("run_scores", "scores")),
    "ranking": FigureSpec(plot_ranking, ("ranking",)),
    "variant_effects": FigureSpec(plot_variant_effects, ("variant_effects",)),
    "comparison": FigureSpec(plot_comparison, ("comparison",)),
    "history": FigureSpec(plot_history, ("history",)),
}
"""What the scores of the study, and those of others, show."""
ROUND_FIGURES: dict[str, FigureSpec] = {
    "mlperf_time_shares": FigureSpec(plot_mlperf_time_shares, ("mlperf_results",)),
    "mlperf_scaling": FigureSpec(plot_mlperf_scaling, ("mlperf_results",)),
    "mlperf_principal": FigureSpec(plot_mlperf_principal, ("mlperf_runs", "mlperf_principal", "mlperf_results")),
    "mlperf_weak": FigureSpec(plot_mlperf_weak, ("mlperf_weak",)),
    "mlperf_prediction": FigureSpec(
        plot_mlperf_prediction,
        ("mlperf_curves", "mlperf_predictions", "mlperf_leave_one_out", "mlperf_prediction_errors"),
    ),
}
"""What published rounds of MLPerf HPC show, with our own runs beside them."""
PREDICTION_FIGURES: dict[str, FigureSpec] = {
    "what_if": FigureSpec(plot_what_if, ("predictions", "scales")),
    "training_hardware": FigureSpec(plot_training_hardware, ("training_sweeps",)),
    "training_batch": FigureSpec(plot_training_batch, ("training_sweeps",)),
    "kernel_errors": FigureSpec(plot_kernel_errors, ("kernel_errors", "kernel_accuracy")),
    "step_accuracy": FigureSpec(plot_step_accuracy, ("step_accuracy",)),
    "hpl_efficiency": FigureSpec(plot_hpl_efficiency, ("hpl_sweeps",)),
    "hpl_host_link": FigureSpec(plot_hpl_host_link, ("hpl_sweeps",)),
    "hpl_network": FigureSpec(plot_hpl_network, ("hpl_sweeps",)),
    "hpl_validation": FigureSpec(plot_hpl_validation, ("hpl_validation", "hpl_published")),
}
"""What models say, and how far they are off."""
FIGURES = {**STUDY_FIGURES, **CHARACTERISATION_FIGURES, **SCORE_FIGURES, **ROUND_FIGURES, **PREDICTION_FIGURES}
"""By topic, the name of the figure's file and of its caption."""


def draw_figure(topic: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw one figure.

    Parameters
    ----------
    topic
        A key of :data:`FIGURES`.
    tables
        The tables by name: at least those that ``FIGURES[topic].tables`` lists.
    """
    spec = FIGURES[topic]
    return spec.draw(*(tables[name] for name in spec.tables))
