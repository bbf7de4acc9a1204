"""Conclusions of Barrachina et al. (2023, doi 10.1007/s00607-021-00997-9) from Figs 4 and 5, recomputed.

Seven statements about the hypothetical cluster. Each is computed and compared; nothing is tuned to match.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from hpcai.predict.training.networks import build_network
from hpcai.predict.training.presets import HYPOTHETICAL
from hpcai.predict.training.roofline_cost import CostModel
from hpcai.predict.training.step import StepModel, StepTime, predict_step
from hpcai.predict.training.sweeps import PAIRS, SOURCE, SWEPT_MODELS, change_scenario

Pair = tuple[str, str]
MEMORY_BOUND_RATIO = 1.5
"""At half the memory rate, a time grows by this factor if half of it is memory traffic; above, memory dominates."""
PLATEAU_RANGE_FLOP_PER_S = 45e12, 70e12
CROSSOVER_RANGE_FLOP_PER_S = 25e12, 38e12
"""Accepted range around the source's 50 and 30 TFLOP/s, which are read from figures."""
LINEAR_TOLERANCE_RATIO = 0.01
AFFINE_BATCHES = np.array([64, 128, 256, 512])
SHARE_BATCHES = np.array([16, 32, 64, 128, 256, 512])
_DECADES = 6.0, 18.0
"""Search interval of roots: logarithms of rates."""


def predict_at(
    pair: Pair, cost_model: CostModel, **changes: float | NDArray[np.float64] | NDArray[np.int64]
) -> StepTime:
    """Return the step of a network with a set of images on the hypothetical cluster, with some numbers changed.

    Parameters
    ----------
    pair
        Names of network and images.
    cost_model
        Variant of the roofline.
    changes
        Fields of `Scenario` by name.
    """
    scenario = HYPOTHETICAL.scenario()
    for name, value in changes.items():
        scenario = change_scenario(scenario, name, value)
    return predict_step(build_network(*pair), scenario, StepModel(cost_model))


def find_plateau_flop_per_s(pair: Pair, cost_model: CostModel, part: str = "compute_s", above: float = 1.05) -> float:
    """Return the peak [flop/s] from which a time is at most `above` times that of an infinitely fast processor.

    Parameters
    ----------
    pair, cost_model
        As in `predict_at`.
    part
        Name of the time in `StepTime`: computing, as in the golden values of the statement, or ``step_s``.
    above
        Ratio of the times, above 1.
    """
    least_s = float(getattr(predict_at(pair, cost_model, peak_flop_per_s=np.inf), part))
    return _find_rate(lambda rate: above * least_s - float(getattr(_at_peak(pair, cost_model, rate), part)))


def find_crossover_flop_per_s(pair: Pair, cost_model: CostModel) -> float:
    """Return the peak [flop/s] at which computing takes as long as communication; NaN if there is none."""
    return _find_rate(lambda rate: _gap(_at_peak(pair, cost_model, rate)))


def find_break_even_bit_per_s(pair: Pair, cost_model: CostModel) -> float:
    """Return the link rate [bit/s] at which communication takes as long as computing; NaN if there is none."""
    return _find_rate(lambda rate: -_gap(predict_at(pair, cost_model, link_bit_per_s=rate)))


def find_linear_misfit_ratio(pair: Pair, cost_model: CostModel) -> float:
    """Return the largest deviation of step times over the batch from their best straight line."""
    step_s = predict_at(pair, cost_model, batch=AFFINE_BATCHES).step_s
    line = np.polyval(np.polyfit(AFFINE_BATCHES, step_s, 1), AFFINE_BATCHES)
    return float(np.abs(line / step_s - 1).max())


def find_memory_growth_ratio(pair: Pair, cost_model: CostModel) -> float:
    """Return the compute time at half the memory rate over that at the full rate."""
    halved = predict_at(pair, cost_model, memory_bytes_per_s=HYPOTHETICAL.memory_bytes_per_s / 2)
    return float(halved.compute_s / predict_at(pair, cost_model).compute_s)


def judge_findings() -> pd.DataFrame:
    """Return the seven statements with the computed values and the verdict: part of ``prediction_findings``."""
    judges = (
        _judge_plateau,
        _judge_crossover,
        _judge_fast_link,
        _judge_slow_link,
        _judge_nodes,
        _judge_batch,
        _judge_memory,
    )
    origin = {"method": "modelled", "source": f"{SOURCE}, Figs 4 and 5; {HYPOTHETICAL.title}"}
    return pd.DataFrame([{"part": "training", **judge(), **origin} for judge in judges])


def _judge_plateau() -> dict[str, str]:
    pair = ("densenet121", "cifar10")
    rates = {model: find_plateau_flop_per_s(pair, model) for model in SWEPT_MODELS}
    steps = {model: find_plateau_flop_per_s(pair, model, "step_s") for model in SWEPT_MODELS}
    low, high = PLATEAU_RANGE_FLOP_PER_S
    return {
        "finding": "DenseNet-121 gains nothing from processors above some peak",
        "source_value": "about 50 TFLOP/s",
        "computed": f"computing within 5 % of its least from {_tera(rates)}",
        "reproduced": _yes([low <= rate <= high for rate in rates.values()]),
        "note": f"CIFAR-10; of the whole step, communication included: from {_tera(steps)}",
    }


def _judge_crossover() -> dict[str, str]:
    pair = ("vgg16", "cifar10")
    rates = {model: find_crossover_flop_per_s(pair, model) for model in SWEPT_MODELS}
    low, high = CROSSOVER_RANGE_FLOP_PER_S
    near = all(low <= rate <= high for rate in rates.values())
    below = all(_gap(_at_peak(pair, model, rate / 2)) > 0 for model, rate in rates.items())
    return {
        "finding": "Communication dominates VGG16 with CIFAR-10 below some peak",
        "source_value": "below about 30 TFLOP/s",
        "computed": f"computing equals communication at {_tera(rates)}; communication dominates "
        + ("below" if below else "above"),
        "reproduced": ("yes" if below else "partly") if near else "no",
        "note": "the source's direction is reversed: a faster processor makes communication weigh more; "
        "the latency of 1 us is inferred from this very rate, so that the rate itself is not an independent check",
    }


def _judge_fast_link() -> dict[str, str]:
    ratios = {pair: _communication_ratio(predict_at(pair, "full")) for pair in PAIRS}
    return {
        "finding": "At 200 Gbit/s communication takes less time than computing for all six",
        "source_value": "below 1",
        "computed": f"communication / computing: {_list_pairs(ratios)}",
        "reproduced": _yes([ratio < 1 for ratio in ratios.values()]),
        "note": "cost model full",
    }


def _judge_slow_link() -> dict[str, str]:
    ratios = {pair: _communication_ratio(predict_at(pair, "full", link_bit_per_s=10e9)) for pair in PAIRS}
    links = {pair: find_break_even_bit_per_s(pair, "full") / 1e9 for pair in PAIRS}
    stated = [pair for pair in PAIRS if pair[1] == "cifar10" or pair[0] == "vgg16"]
    return {
        "finding": "At 10 Gbit/s communication takes longer than computing for CIFAR-10 and for VGG16 with ImageNet",
        "source_value": "above 1",
        "computed": f"communication / computing: {_list_pairs(ratios)}",
        "reproduced": _yes([ratios[pair] > 1 for pair in stated]),
        "note": f"cost model full; both take the same time at [Gbit/s]: {_list_pairs(links)}",
    }


def _judge_nodes() -> dict[str, str]:
    steps = {pair: predict_at(pair, "full", ranks=np.array([10, 100, 1000])) for pair in PAIRS}
    growths = {pair: step.step_s[1:] / step.step_s[:-1] for pair, step in steps.items()}
    early, late = ({pair: float(growth[part]) for pair, growth in growths.items()} for part in (0, 1))
    shares = {pair: float(step.communication_share_ratio[-1]) for pair, step in steps.items()}
    return {
        "finding": "With more nodes communication grows until it dominates",
        "source_value": "growth from 100 to 1000 nodes above that from 10 to 100",
        "computed": f"step from 100 to 1000 nodes: {_list_pairs(late)} x; from 10 to 100: {_list_pairs(early)} x",
        "reproduced": _yes([late[pair] > early[pair] for pair in PAIRS]),
        "note": f"cost model full; share of communication at 1000 nodes: {_list_pairs(shares)}",
    }


def _judge_batch() -> dict[str, str]:
    misfits = {pair: find_linear_misfit_ratio(pair, "gemm") for pair in PAIRS}
    shares = {pair: predict_at(pair, "full", batch=SHARE_BATCHES).communication_share_ratio for pair in PAIRS}
    ends = {pair: f"{share[0]:.2f} to {share[-1]:.2f}" for pair, share in shares.items()}
    linear = [misfit < LINEAR_TOLERANCE_RATIO for misfit in misfits.values()]
    return {
        "finding": "The time of a step grows linearly with the batch, and communication weighs less",
        "source_value": "linear; falling share",
        "computed": f"at most {max(misfits.values()):.1e} off a straight line (gemm, batch 64 to 512); share of "
        "communication from batch 16 to 512 (full): " + ", ".join(ends.values()),
        "reproduced": _yes([*linear, *(bool((np.diff(share) < 0).all()) for share in shares.values())]),
        "note": "shares in the order " + ", ".join(f"{name} {data}" for name, data in PAIRS),
    }


def _judge_memory() -> dict[str, str]:
    pairs = [pair for pair in PAIRS if pair[1] == "imagenet"]
    growths = {model: {pair: find_memory_growth_ratio(pair, model) for pair in pairs} for model in SWEPT_MODELS}
    bound = [ratio >= MEMORY_BOUND_RATIO for ratios in growths.values() for ratio in ratios.values()]
    return {
        "finding": "All networks with ImageNet are mainly memory-bound",
        "source_value": "all",
        "computed": "computing with half the memory rate: "
        + "; ".join(f"{model} {_list_pairs(ratios)} x" for model, ratios in growths.items()),
        # The statement covers all networks, so a single exception refutes it.
        "reproduced": "yes" if all(bound) else "no",
        "note": f"mainly memory-bound: at least {MEMORY_BOUND_RATIO:g} x",
    }


def _find_rate(rising: Callable[[float], float]) -> float:
    """Return the rate where a function crosses from below to above 0; NaN if it does not."""

    def at(decade: float) -> float:
        return rising(10.0**decade)

    if not at(_DECADES[0]) < 0 < at(_DECADES[1]):
        return float("nan")
    return float(10.0 ** brentq(at, *_DECADES, xtol=1e-10))


def _at_peak(pair: Pair, cost_model: CostModel, peak_flop_per_s: float) -> StepTime:
    return predict_at(pair, cost_model, peak_flop_per_s=peak_flop_per_s)


def _gap(step: StepTime) -> float:
    return float(step.communication_s - step.compute_s)


def _communication_ratio(step: StepTime) -> float:
    return float(step.communication_s / step.compute_s)


def _yes(agreements: list[bool]) -> str:
    return "yes" if all(agreements) else "partly" if any(agreements) else "no"


def _tera(rates: Mapping[CostModel, float]) -> str:
    return ", ".join(f"{rate / 1e12:.1f} TFLOP/s ({model})" for model, rate in rates.items())


def _list_pairs(values: Mapping[Pair, float]) -> str:
    return ", ".join(f"{name} {data} {value:.3g}" for (name, data), value in values.items())
