"""Synthetic tables of predictions for tests: shaped like real ones, from a few closed formulas."""

import itertools
import math

import numpy as np
import pandas as pd

NETWORKS = {"vgg11": (18e9, 4e8), "vgg16": (37e9, 6e8), "resnet50": (150e9, 1e8), "densenet121": (105e9, 2.8e7)}
"""Approximate FLOP per sample and step, and bytes of the gradient."""
BASE = {"peak": 2e13, "memory": 1.5e12, "link": 2e11, "nodes": 100.0, "batch": 128.0}
UNITS = {"peak": "FLOP/s", "memory": "B/s", "link": "bit/s", "nodes": "", "batch": "samples"}
COST_MODELS = {"gemm": 1.0, "im2col": 1.1, "full": 1.3}
KERNELS = (
    *(f"conv{size}_{stage}" for size in ("2d", "3d") for stage in ("forward", "input_gradient", "weight_gradient")),
    *(f"gemm_{stage}" for stage in ("forward", "input_gradient", "weight_gradient")),
    *(f"{name}_{way}" for name in ("max_pool", "average_pool", "batch_norm", "relu", "bias", "softmax")
      for way in ("forward", "backward")),
    "sgd", "copy",
)  # fmt: skip
STAGES = ("forward", "input gradient", "weight gradient", "update", "step")
LOST = "every case failed: the library aborted"
NO_ERROR_KNOWN = "one scale: no error is known"


def make_sweeps(networks: tuple[str, ...] = tuple(NETWORKS), data: tuple[str, ...] = ("cifar10", "imagenet"),
                cost_models: tuple[str, ...] = tuple(COST_MODELS)) -> pd.DataFrame:  # fmt: skip
    """Return sweeps of every quantity over a factor of 16 around the baseline."""
    rows = [
        _sweep_row(network, name, cost_model, {**BASE, swept: BASE[swept] * 2.0**power}, swept)
        for network, name, swept, power, cost_model in itertools.product(
            networks, data, BASE, range(-4, 5), cost_models
        )
    ]
    return pd.DataFrame(rows)


def _sweep_row(network: str, data: str, cost_model: str, at: dict[str, float], swept: str) -> dict[str, object]:
    work, message = NETWORKS[network]
    work = work / 25 if data == "cifar10" else work
    compute = COST_MODELS[cost_model] * at["batch"] * work * (0.1 / at["peak"] + 0.02 / at["memory"])
    communication = 2 * at["nodes"] * 1e-6 * 50 + 2 * 8 * message / at["link"] * (1 - 1 / at["nodes"])
    step = compute + communication
    return {
        "network": network, "data": data, "swept": swept, "value": at[swept], "unit": UNITS[swept],
        "cost_model": cost_model, "compute_s": compute, "communication_s": communication, "step_s": step,
        "epoch_s": step * 50000 / at["batch"] / at["nodes"], "communication_share_ratio": communication / step,
        "at_baseline": at == BASE, "method": "modelled", "source": "made up",
    }  # fmt: skip


def make_accuracy(kernels: tuple[str, ...] = KERNELS) -> pd.DataFrame:
    """Return the accuracy of regressors: every fifth misses its goal, the last was not fitted."""
    rows = []
    for number, kernel in enumerate(kernels):
        lost = number == len(kernels) - 1 and len(kernels) > 1
        error = math.nan if lost else 0.25 if number % 5 == 4 else 0.08
        rows.append({
            "kernel": kernel, "n": 0 if lost else 1000, "n_test": 0 if lost else 200, "mape_ratio": error,
            "median_ape_ratio": 0.8 * error, "bias_ratio": 0.1 * error, "weighted_error_ratio": 0.9 * error,
            "mape_log_linear_ratio": 3 * error, "mape_two_parameter_ratio": 2 * error,
            "gain_ratio": math.nan if lost else 3.0,
            "goal_ratio": 0.20, "gain_goal_ratio": 2.0, "within_goal": pd.NA if lost else error <= 0.2,
            "epochs": 120, "method": "modelled",
            "source": "results/characterise/kernel_times.parquet",
            "reason": LOST if lost else "",
        })  # fmt: skip
    return pd.DataFrame(rows).astype({"within_goal": "boolean"})


def make_errors(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of all test cases: log-normal, with some outliers."""
    random = np.random.default_rng(7)
    parts = []
    for row in accuracy.to_dict("records"):
        errors = np.expm1(random.normal(0.0, 1.25 * np.nan_to_num(row["mape_ratio"]), row["n_test"]))
        measured = np.exp(random.uniform(-9, -3, row["n_test"]))
        parts.append(pd.DataFrame({
            "kernel": row["kernel"], "split": "test", "measured_s": measured, "estimated_s": measured * (1 + errors),
            "relative_error_ratio": errors,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def make_steps(overheads: tuple[str, ...] = ("none", "fitted on VGG11, batch 8")) -> pd.DataFrame:
    """Return predicted and measured steps of three networks and two own runs, one without a prediction."""
    rows = []
    cases = [
        ("reference network", "VGG11", 0.9), ("reference network", "VGG16", 1.7), ("reference network", "CNN", 0.1),
        ("own run", "resnet50_tiny", 0.02), ("own run", "deepcam_tiny", 0.08),
    ]  # fmt: skip
    for number, (origin, name, step) in enumerate(cases):
        stages = STAGES if origin == "reference network" else ("step",)
        for batch, model, overhead, stage in itertools.product((8, 16), ("regressors", "full"), overheads, stages):
            lost = name == "deepcam_tiny" and batch == 16
            base = -0.20 if model == "regressors" else -0.7
            error = (base if overhead == "none" else 0.02) + 0.03 * (number - 2) + 0.05 * STAGES.index(stage)
            measured = step * batch / 8 * (1 if stage == "step" else 0.25)
            rows.append({
                "origin": origin, "name": name, "variant": "fp32", "engine": "horovod",
                "scale": "n1x1", "ranks": 1, "batch": batch,
                "cost_model": model, "overhead": overhead, "stage": stage, "measured_s": measured,
                "estimated_s": math.nan if lost else measured * (1 + error),
                "relative_error_ratio": math.nan if lost else error, "goal_ratio": 0.3 if overhead == "none" else 0.15,
                "within_goal": pd.NA if lost else abs(error) <= 0.3, "covered_ratio": 0.97, "method": "modelled",
                "source": "results/characterise/reference_steps.json", "reason": "no layer list" if lost else "",
            })  # fmt: skip
    return pd.DataFrame(rows)


def make_predictions(scales: pd.DataFrame, ranks: tuple[int, ...] = (1, 2, 4, 8, 64), *, interval: bool = True,
                     epochs: bool = True, named: str = "") -> pd.DataFrame:  # fmt: skip
    """Return predictions from the smallest scale of each benchmark and variant, for every question.

    Parameters
    ----------
    scales
        Table of scales.
    ranks
        Scales of the predictions.
    interval
        Whether their error is known.
    epochs
        Whether the epochs at the new batch size are known, so that there is a time to train.
    named
        Suffix of link names.
    """
    rows = []
    for _, part in scales.groupby(["benchmark", "variant", "engine"], sort=True):
        base = part.sort_values("ranks").iloc[0]
        rows += [_prediction(base, count, "scale", interval, epochs) | {"link": f"measured{named}"} for count in ranks]
        for question, answers in {
            "link": (f"10 Gbit/s Ethernet{named}", f"EDR InfiniBand{named}"), "precision": ("bf16",),
            "compression": ("fp16",),
        }.items():  # fmt: skip
            for place, answer in enumerate(answers):
                for count in ranks[1:]:
                    row = _prediction(base, count, question, interval, epochs)
                    faster = 0.8**place
                    scaled = {key: value * faster for key, value in row.items() if key.endswith("_s")}
                    rows.append(row | scaled | {question: answer})
    return pd.DataFrame(rows)


def _prediction(
    base: "pd.Series[object]", ranks: int, question: str, interval: bool, epochs: bool
) -> dict[str, object]:
    speedup = ranks**0.8 / float(base["ranks"]) ** 0.8  # type: ignore[arg-type]
    step = 0.1 / speedup
    spread = 0.4 if interval else math.nan
    row: dict[str, object] = {
        "benchmark": base["benchmark"], "variant": base["variant"], "engine": "horovod", "from_scale": base["scale"],
        "scale_words": f"n1x{ranks}", "nodes": 1, "ranks": ranks, "link": "measured", "precision": "fp32",
        "compression": "none", "global_batch_samples": 16, "question": question, "baseline": base["scale"],
        "baseline_ranks": int(base["ranks"]), "epochs": 3.0 if epochs else math.nan,  # type: ignore[call-overload]
        "epochs_basis": "as measured" if epochs else "", "interval_basis": "held-out scales" if interval else "",
        "interval_n": 4 if interval else 0, "assumed": "", "extrapolated": "ranks" if ranks > 2 else "",
        "method": "modelled", "source": "results/runs/x", "reason": "" if interval else NO_ERROR_KNOWN,
        "compute_s": 0.9 * step, "communication_s": 0.1 * step, "communication_share_ratio": 0.1,
    }  # fmt: skip
    efficiency = speedup * float(base["ranks"]) / ranks  # type: ignore[arg-type]
    time = 20.0 / speedup if epochs else math.nan
    values = {
        "step_{}s": step, "rate_{}samples_per_s": 16 / step, "speedup_{}ratio": speedup,
        "efficiency_{}ratio": efficiency, "rate_{}flop_per_s": 1e9 / step, "vflops_{}flop_per_s": math.nan,
        "time_to_train_{}s": time,
    }  # fmt: skip
    for name, value in values.items():
        row |= {name.format(""): value, name.format("low_"): value * (1 - spread),
                name.format("high_"): value * (1 + spread)}  # fmt: skip
    return row
