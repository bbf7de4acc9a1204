"""Step times over one property of a cluster at a time, for all networks: the source's Figs 4 and 5, and its baseline.

Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9). The baseline is the hypothetical cluster, whose numbers are
partly assumed. The swept values are our own and include those of the baseline.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hpcai.predict.training.layers import count_forward_flop, count_parameters
from hpcai.predict.training.networks import IMAGES, NETWORKS, build_network
from hpcai.predict.training.presets import HYPOTHETICAL, Cluster
from hpcai.predict.training.roofline_cost import COST_MODELS, CostModel
from hpcai.predict.training.step import Scenario, StepModel, StepTime, predict_step

SOURCE = "Barrachina et al. 2023, doi 10.1007/s00607-021-00997-9"
STUDIED_NETWORKS = ("vgg16", "resnet50", "densenet121")
"""Networks of the source; with two sets of images they form its six pairs."""
PAIRS = tuple((network, data) for data in IMAGES for network in STUDIED_NETWORKS)
SWEPT_MODELS: tuple[CostModel, ...] = ("gemm", "full")

TIME_COLUMNS = (
    "forward_s",
    "input_gradient_s",
    "weight_gradient_s",
    "elementwise_s",
    "update_s",
    "compute_s",
    "communication_s",
    "exposed_communication_s",
    "input_s",
    "step_s",
)
"""Attributes of `StepTime` used as columns of tables."""


@dataclass(frozen=True)
class Sweep:
    """One property of the cluster: its name in `Scenario`, the unit of its values, and factors of the baseline."""

    parameter: str
    unit: str
    factors: tuple[float, ...]


_DOUBLINGS = tuple(2.0**power for power in range(-5, 7))
SWEEPS = {
    "peak": Sweep("peak_flop_per_s", "FLOP/s", _DOUBLINGS),
    "memory": Sweep("memory_bytes_per_s", "byte/s", tuple(2.0**power for power in range(-4, 5))),
    "link": Sweep("link_bit_per_s", "bit/s", (0.005, 0.0125, 0.025, 0.05, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)),
    "nodes": Sweep("ranks", "nodes", (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)),
    "batch": Sweep("batch", "samples per node", tuple(2.0**power for power in range(-4, 4))),
}


def predict_networks(cluster: Cluster = HYPOTHETICAL) -> pd.DataFrame:
    """Return one row per network, set of images and cost model at a cluster, with the parts of a step's time.

    Parameters
    ----------
    cluster
        Must have a batch; defaults to the source's baseline.

    Returns
    -------
    pandas.DataFrame
        Table ``training_networks``; all times are modelled [s].
    """
    rows = []
    for data in IMAGES:
        for name in NETWORKS:
            network = build_network(name, data)
            counts = {
                "parameters": count_parameters(network),
                "forward_flop_per_sample": sum(count_forward_flop(layer) for layer in network.layers),
            }
            for cost_model in COST_MODELS:
                step = predict_step(network, cluster.scenario(), StepModel(cost_model))
                origin = {"source": _describe_source(cluster)}
                columns = {"network": name, "data": data, **counts, "cost_model": cost_model}
                rows.append({**columns, **describe_step(step, IMAGES[data].samples), **origin})
    return pd.DataFrame(rows)


def sweep_training(cluster: Cluster = HYPOTHETICAL) -> pd.DataFrame:
    """Return step and epoch times over five properties of a cluster, one at a time, for the source's six pairs.

    Parameters
    ----------
    cluster
        Baseline, which must have a batch.

    Returns
    -------
    pandas.DataFrame
        Table ``training_sweeps``; ``at_baseline`` marks the rows of the cluster itself.
    """
    return pd.concat(_sweep_pairs(cluster), ignore_index=True)


def describe_step(step: StepTime, samples: int | None) -> dict[str, object]:
    """Return the columns of a table for a step: its parts in seconds, its shares, and the method.

    Parameters
    ----------
    step
        Step with numbers or arrays.
    samples
        Samples of an epoch; without them the time of an epoch is NaN.
    """
    columns = {name: getattr(step, name) for name in TIME_COLUMNS}
    columns["epoch_s"] = step.epoch_s(samples) if samples else np.full(np.shape(step.step_s), np.nan)
    columns["communication_share_ratio"] = step.communication_share_ratio
    columns["rate_samples_per_s"] = step.rate_samples_per_s
    # A zero-dimensional array would create a column of objects.
    return {**{name: np.asarray(values)[()] for name, values in columns.items()}, "method": step.method}


def _sweep_pairs(cluster: Cluster) -> Iterator[pd.DataFrame]:
    for swept, sweep in SWEEPS.items():
        factors = np.array(sweep.factors)
        values = factors * getattr(cluster, sweep.parameter)
        if sweep.parameter in ("ranks", "batch"):
            values = np.unique(np.maximum(np.round(values), 1))
        scenario = change_scenario(cluster.scenario(), sweep.parameter, values)
        for name, data in PAIRS:
            for cost_model in SWEPT_MODELS:
                step = predict_step(build_network(name, data), scenario, StepModel(cost_model))
                names = {"network": name, "data": data, "swept": swept}
                axis = {"value": values, "unit": sweep.unit, "cost_model": cost_model}
                times = describe_step(step, IMAGES[data].samples)
                at_baseline = values == getattr(cluster, sweep.parameter)
                method = {
                    "at_baseline": at_baseline,
                    "method": times.pop("method"),
                    "source": _describe_source(cluster),
                }
                yield pd.DataFrame({**names, **axis, **times, **method})


def change_scenario(scenario: Scenario, parameter: str, value: object) -> Scenario:
    """Return a scenario with another value of one parameter."""
    changes: dict[str, object] = {parameter: value}
    return replace(scenario, **changes)  # type: ignore[arg-type]


def _describe_source(cluster: Cluster) -> str:
    return f"{SOURCE}; {cluster.title}: " + ", ".join(
        f"{name} {words}" for name, words in cluster.origins.items() if words.startswith(("assumed", "inferred"))
    )
