"""Synthetic tables of MLPerf HPC rounds: any number of results from several rounds, machines and divisions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hpcai.mlperf_hpc.analysis.columns import (
    EFFICIENCY_COLUMNS,
    PRINCIPAL_COLUMNS,
    RESULT_COLUMNS,
    RUN_COLUMNS,
    WEAK_COLUMNS,
)

BENCHMARKS = {"cosmoflow": (262144, 40.0, 10), "deepcam": (121266, 20.0, 5), "oc20": (460328, 25.0, 5)}
"""Training samples, epochs, and runs required by the rules."""


def make_result(benchmark: str, number: int, origin: str, **changes: Any) -> dict[str, Any]:
    """Return one result with consistent quantities: more units, larger batch, more epochs, shorter time."""
    samples, base_epochs, runs = BENCHMARKS[benchmark]
    units = 2 ** (4 + number % 9) * (3 if number % 4 == 3 else 1)
    epochs = base_epochs * (1 + 0.05 * number)
    # As in reality, each round is faster than the previous one: equal points would hide each other.
    rate = 30.0 * units**0.95 * (1 + 0.3 * (number % 3) + 0.1 * sum(map(ord, origin)) % 1)
    train_s, evaluation_s = epochs * samples / rate, 0.1 * epochs * samples / rate
    staging_s = np.nan if number % 5 == 4 else 40.0 * (number % 3)
    compute_s = train_s + evaluation_s
    run_s = 1.02 * (compute_s + np.nan_to_num(staging_s))
    row = {
        "origin": origin, "method": "published", "submission": f"ORG{number}/system_{number}_n{units}",
        "org": f"ORG{number}", "system": f"system_{number}_n{units}", "label": f"System{number}-{units}",
        "benchmark": benchmark, "edition": f"{samples} samples", "same_runs_as": "",
        "scaling": "strong", "division": "open" if number % 4 == 1 else "closed",
        "rule_set": "1.0.0", "runs": runs, "runs_by_rule": runs, "good_by_status": runs, "good_by_target": runs,
        "kept": runs - 2, "nodes": units // 2, "processors": units, "accelerators": 0 if number % 6 == 5 else units,
        "units": units, "unit": "processor" if number % 6 == 5 else "accelerator", "global_batch_samples": units,
        "samples_per_unit": 1.0, "train_samples": samples, "quality_target": 0.124, "run_s": run_s,
        "run_std_s": 0.1 * run_s, "staging_s": staging_s, "staging_std_s": 1.0, "epochs": epochs,
        "epochs_std": 0.08 * epochs, "epoch_s": compute_s / epochs, "epoch_std_s": 0.03 * compute_s / epochs,
        "compute_s": compute_s, "compute_std_s": 0.09 * compute_s, "evaluation_s": evaluation_s, "evaluations": epochs,
        "train_s": train_s, "extra_s": 0.02 * run_s, "staging_ratio": staging_s / compute_s * epochs,
        "staging_share_ratio": staging_s / run_s, "evaluation_share_ratio": evaluation_s / run_s,
        "train_share_ratio": train_s / run_s, "extra_share_ratio": 0.02, "epoch_rate_per_s": epochs / compute_s,
        "train_rate_samples_per_s": rate, "evaluation_rate_samples_per_s": 2 * rate,
        "train_rate_per_unit_samples_per_s": rate / units, "train_rate_per_unit_std_samples_per_s": 0.02 * rate / units,
        "evaluation_rate_per_unit_samples_per_s": 2 * rate / units,
        "evaluation_rate_per_unit_std_samples_per_s": 0.05 * rate / units, "budget_unit_h": units * run_s / 3600,
        "time_to_train_s": run_s, "scaling_factor": 1.0, "reason": "", "source": f"ORG{number}/results",
    }  # fmt: skip
    return {**row, **changes}


def make_results(count: int = 15, origins: Sequence[str] = ("v0.7",)) -> pd.DataFrame:
    """Return ``count`` results of each origin, spread over the benchmarks."""
    names = list(BENCHMARKS)
    rows = [make_result(names[number % len(names)], number, origin) for origin in origins for number in range(count)]
    return pd.DataFrame(rows, columns=list(RESULT_COLUMNS))


def make_runs(results: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of some results: epochs vary, throughput hardly does; the last run does not count."""
    random = np.random.default_rng(7)
    rows = []
    for result in results.to_dict("records"):
        for number in range(1, result["runs"] + 1):
            epochs = max(1, round(result["epochs"] * random.lognormal(0, 0.08)))
            rate = result["epoch_rate_per_s"] * random.lognormal(0, 0.02)
            own = {"number": number, "epochs": epochs, "epoch_rate_per_s": rate, "kept_by_status": number > 2}
            rows.append({**{key: result[key] for key in RUN_COLUMNS if key in result}, **own})
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def make_principal(results: pd.DataFrame) -> pd.DataFrame:
    """Return ellipses: a long first axis along the epochs, a short second one."""
    kept = [key for key in PRINCIPAL_COLUMNS if key in results]
    axes = {
        "std1_log10": 0.035, "axis1_epochs": 0.995, "axis1_rate": 0.1, "std2_log10": 0.009, "axis2_epochs": 0.1,
        "axis2_rate": -0.995, "variance1_ratio": 0.93, "correlation_ratio": 0.3,
    }  # fmt: skip
    centres = {"centre_epochs": results["epochs"], "centre_epoch_rate_per_s": results["epoch_rate_per_s"]}
    return results[kept].assign(**centres, **axes).reindex(columns=list(PRINCIPAL_COLUMNS))


def make_weak(count: int = 6, origins: Sequence[str] = ("v1.0",)) -> pd.DataFrame:
    """Return results of weak scaling."""
    rows = []
    for origin in origins:
        for number in range(count):
            strong = make_result(list(BENCHMARKS)[number % 3], number, origin, scaling="weak")
            whole, instances = 128 * 2 ** (number % 4), 12 + 4 * number
            own = {
                "whole_scale": whole, "instance_scale": 16, "logged_instance_scale": 16.0, "scale_unit": "accelerator",
                "instance_scale_source": "number_of_ranks", "instances": instances,
                "counted_instances": instances - 2, "time_to_train_all_s": 3000.0 + 100 * number,
                "models_per_min": 60 * (instances - 2) / (3000 + 100 * number), "energy_j": np.nan,
            }  # fmt: skip
            rows.append({**strong, **own})
    return pd.DataFrame(rows).reindex(columns=list(WEAK_COLUMNS))


def make_efficiencies(results: pd.DataFrame) -> pd.DataFrame:
    """Return the efficiency of the second result of each benchmark against the first."""
    rows = []
    for benchmark, part in results.groupby("benchmark"):
        first, second = (
            part.sort_values("units", kind="stable")[["origin", "label", "units"]].head(2).to_dict("records")
        )
        pair = {
            "base": first["label"],
            "result": second["label"],
            "base_units": first["units"],
            "units": second["units"],
        }
        own = {"efficiency_ratio": 0.93, "speedup_ratio": 1.9}
        rows.append({"origin": first["origin"], "benchmark": benchmark, "quantity": "train_rate", **pair, **own})
    return pd.DataFrame(rows, columns=list(EFFICIENCY_COLUMNS))
