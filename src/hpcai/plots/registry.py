"""How every figure of the catalogue is drawn."""

from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib.figure import Figure

from hpcai import catalogue
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

FIGURES: dict[str, Callable[..., Figure]] = {
    "time_to_train": plot_time_to_train,
    "quality": plot_quality,
    "loss": plot_loss,
    "time_shares": plot_time_shares,
    "throughput": plot_throughput,
    "step_times": plot_step_times,
    "staging": plot_staging,
    "lanes": plot_lanes,
    "phases": plot_phases,
    "messages": plot_messages,
    "links": plot_links,
    "kernels": plot_kernels,
    "io": plot_io,
    "ceilings": plot_ceilings,
    "scores": plot_scores,
    "ranking": plot_ranking,
    "variant_effects": plot_variant_effects,
    "comparison": plot_comparison,
    "history": plot_history,
    "mlperf_time_shares": plot_mlperf_time_shares,
    "mlperf_scaling": plot_mlperf_scaling,
    "mlperf_principal": plot_mlperf_principal,
    "mlperf_weak": plot_mlperf_weak,
    "mlperf_prediction": plot_mlperf_prediction,
    "what_if": plot_what_if,
    "training_hardware": plot_training_hardware,
    "training_batch": plot_training_batch,
    "kernel_errors": plot_kernel_errors,
    "step_accuracy": plot_step_accuracy,
    "hpl_efficiency": plot_hpl_efficiency,
    "hpl_host_link": plot_hpl_host_link,
    "hpl_network": plot_hpl_network,
    "hpl_validation": plot_hpl_validation,
}
"""How each figure of the catalogue is drawn, by its name."""


def draw_figure(topic: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw one figure.

    Parameters
    ----------
    topic
        A key of :data:`FIGURES`.
    tables
        The tables by name: at least those that the catalogue lists for it.
    """
    return FIGURES[topic](*(tables[name] for name in catalogue.FIGURES[topic].tables))
