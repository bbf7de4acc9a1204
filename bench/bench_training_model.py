"""Training scenarios per second for ResNet-50 with ImageNet: vectorised against a plain Python loop, interleaved.

The loop has the same equations in plain form: for each scenario and layer, the matrix products, the passes of
element-wise layers, the patches, and eq. 1. Both run on one core and must give equal times. The loop is timed for
fewer scenarios, and the rates are compared.
"""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcai.predict.training.layers import Layer
from hpcai.predict.training.networks import build_network
from hpcai.predict.training.roofline_cost import COST_MODELS, PASSES
from hpcai.predict.training.step import Scenario, StepModel, predict_step

SCENARIOS, LOOPED, ROUNDS = 2000, 50, 5
GOAL_PER_S = 1000.0
NETWORK = build_network("resnet50", "imagenet")
LARGEST_DIFFERENCE = 1e-9


def main() -> None:
    """Print rates of both for each cost model, with and without overlap; fail below the goal or if times differ."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    generator = np.random.default_rng(8)
    scenario = Scenario(
        peak_flop_per_s=10 ** generator.uniform(12, 15, SCENARIOS),
        memory_bytes_per_s=10 ** generator.uniform(11, 13, SCENARIOS),
        link_bit_per_s=10 ** generator.uniform(9, 12, SCENARIOS),
        latency_s=10 ** generator.uniform(-6, -4, SCENARIOS),
        ranks=generator.integers(1, 1000, SCENARIOS),
        batch=generator.integers(1, 512, SCENARIOS),
    )
    print(f"{NETWORK.title}, {len(NETWORK.layers)} layers, one core; medians of {ROUNDS} rounds, scenarios per second")
    failed = False
    for cost_model in COST_MODELS:
        for overlap in (False, True):
            failed |= _compare(scenario, StepModel(cost_model, overlap=overlap))
    sys.exit(failed)


def _compare(scenario: Scenario, model: StepModel) -> bool:
    """Time both alternately; return whether the goal is missed or the times differ."""
    ours_s, loop_s, difference = [], [], 0.0
    for _ in range(ROUNDS):
        taken_s, together = _timed(lambda: predict_step(NETWORK, scenario, model).step_s)
        ours_s.append(taken_s / SCENARIOS)
        taken_s, looped = _timed(lambda: [loop_step(point, model) for point in _points(scenario)])
        loop_s.append(taken_s / LOOPED)
        difference = max(difference, float(np.abs(np.array(looped) / together[:LOOPED] - 1).max()))
    ours, loop = 1 / statistics.median(ours_s), 1 / statistics.median(loop_s)
    ratios = [theirs / own for own, theirs in zip(ours_s, loop_s, strict=True)]
    name = f"{model.cost_model}, {'overlap' if model.overlap else 'no overlap'}"
    print(
        f"  {name:20} {ours:9.0f} /s (goal {GOAL_PER_S:g})  loop {loop:6.0f} /s  {statistics.median(ratios):6.1f} x",
        end="",
    )
    print(f" ({min(ratios):.1f} to {max(ratios):.1f})  largest difference {difference:.1e}")
    return ours < GOAL_PER_S or difference > LARGEST_DIFFERENCE


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.monotonic()
    result = action()
    return time.monotonic() - started_s, result


def _points(scenario: Scenario) -> list[dict[str, float]]:
    names = ("peak_flop_per_s", "memory_bytes_per_s", "link_bit_per_s", "latency_s", "ranks", "batch")
    return [{name: float(getattr(scenario, name)[number]) for name in names} for number in range(LOOPED)]


def loop_step(point: dict[str, float], model: StepModel) -> float:
    """Return the time of one step in one scenario [s]."""
    forward_s = update_s = 0.0
    backward, messages = [], []
    for layer in NETWORK.layers:
        layer_forward_s, layer_backward_s = loop_layer(layer, point, model.cost_model)
        forward_s += layer_forward_s
        backward.append(layer_backward_s)
        messages.append(loop_message(layer.parameters, point))
        if model.cost_model == "full":
            update_s += 4 * 4 * layer.parameters / point["memory_bytes_per_s"]
    if not model.overlap:
        return forward_s + sum(backward) + update_s + sum(messages)
    clock_s = link_free_s = forward_s
    for layer_backward_s, message_s in zip(reversed(backward), reversed(messages), strict=True):
        clock_s += layer_backward_s
        if message_s:
            link_free_s = max(link_free_s, clock_s) + message_s
    return max(clock_s, link_free_s) + update_s


def loop_layer(layer: Layer, point: dict[str, float], cost_model: str) -> tuple[float, float]:
    """Return the times of one layer, forward and backward [s]."""
    batch, memory = point["batch"], point["memory_bytes_per_s"]
    inputs, outputs = math.prod(layer.input_shape), math.prod(layer.output_shape)
    if layer.kind not in ("convolution", "dense"):
        if cost_model != "full":
            return 0.0, 0.0
        ways = [batch * 4 * (of_in * inputs + of_out * outputs) / memory for of_in, of_out in PASSES[layer.kind]]
        return ways[0], ways[1]
    columns, taps = batch * math.prod(layer.output_shape[:-1]), math.prod(layer.kernel)
    rows, inner = layer.output_shape[-1], layer.input_shape[-1] * taps
    forward_s, backward_s = loop_gemm(rows, columns, inner, point), loop_gemm(rows, inner, columns, point)
    if layer.needs_input_gradient:
        backward_s += loop_gemm(inner, columns, rows, point)
    if cost_model == "im2col" and layer.kind == "convolution" and {*layer.kernel, *layer.strides} != {1}:
        patches_s = 4 * (batch * inputs + inner * columns) / memory
        forward_s += patches_s
        backward_s += patches_s if layer.needs_input_gradient else 0.0
    return forward_s, backward_s


def loop_gemm(m: float, n: float, k: float, point: dict[str, float]) -> float:
    return max(2 * m * n * k / point["peak_flop_per_s"], 4 * (m * n + m * k + n * k) / point["memory_bytes_per_s"])


def loop_message(parameters: int, point: dict[str, float]) -> float:
    ranks = point["ranks"]
    if ranks == 1 or not parameters:
        return 0.0
    share = (ranks - 1) / ranks
    sending_s = 2 * share * 8 * 4 * parameters / point["link_bit_per_s"]
    return 2 * (ranks - 1) * point["latency_s"] + sending_s + share * parameters / point["peak_flop_per_s"]


if __name__ == "__main__":
    main()
