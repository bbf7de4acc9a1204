"""Laws of a study: those its scales allow, refusals with reasons, and curves that agree with points and laws."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hpcai.metrics.scaling.efficiency import compute_scaling
from hpcai.metrics.scaling.fits import (
    AT_BOUND,
    BEYOND,
    CURVE_COLUMNS,
    EXACT_LAW,
    FIT_COLUMNS,
    LAW,
    fit_scaling,
    trace_scaling,
)
from hpcai.metrics.scaling.model_limits import TOO_EFFICIENT


def make_runs(
    ranks: tuple[int, ...], sigma: float = 0.05, kappa: float = 0.0, *, repeats: int = 3, noise: float = 0.01,
    **columns: Any,
) -> pd.DataFrame:  # fmt: skip
    """Return runs whose throughput follows a law; one node, 100 samples/s on one rank."""
    random = np.random.default_rng(5)
    rows = [
        {
            "benchmark": "b",
            "variant": "v",
            "engine": "horovod",
            "scale": f"n1x{count}",
            "nodes": 1,
            "ranks": count,
            "repetition": repetition,
            "started_utc": f"2026-01-01T00:{count:02}:{repetition:02}Z",
            "suite": "mlperf_hpc",
            "workload": "cosmoflow",
            "outcome": "converged",
            "dropped": "",
            "time_to_train_s": 10.0,
            "train_rate_samples_per_s": 100 * count / (1 + sigma * (count - 1) + kappa * count * (count - 1))
            * math.exp(noise * random.standard_normal()),
            "global_batch_samples": 64,
            "record_path": f"results/runs/b/v/n1x{count}/r{repetition}/record.json",
            **columns,
        }
        for count in ranks
        for repetition in range(1, repeats + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_law_is_chosen_and_recovered() -> None:
    for kappa, law in ((0.0, "amdahl"), (1e-3, "universal")):
        fits = fit_scaling(make_runs((1, 2, 4, 8, 16), kappa=kappa))
        assert list(fits.columns) == list(FIT_COLUMNS)
        assert set(fits["law"]) == {"amdahl", "universal"}
        best = fits[fits["chosen"]].iloc[0]
        assert len(fits[fits["chosen"]]) == 1
        assert best["law"] == law
        assert best["aicc"] == fits["aicc"].min()
        assert best["serial_fraction_low_ratio"] < 0.05 < best["serial_fraction_high_ratio"]
        assert (best["n"], best["scales"], best["ranks_min"], best["ranks_max"]) == (15, 5, 1, 16)
        assert best["source"] == "results/runs/b/v"
        assert best["method"] == "modelled"
        assert "AICc smaller by" in best["reason"]


def test_limits_of_the_laws() -> None:
    fits = fit_scaling(make_runs((1, 2, 4, 8, 16), 0.05, 1e-3, noise=0)).set_index("law")
    assert fits.loc["universal", "best_ranks"] == pytest.approx(math.sqrt(0.95 / 1e-3), rel=1e-3)
    assert "beyond the measured ranks" in fits.loc["universal", "reason"]
    assert math.isnan(fits.loc["universal", "rate_limit_samples_per_s"])
    amdahl = fit_scaling(make_runs((1, 2, 4), 0.05, noise=0)).iloc[0]
    assert amdahl["rate_limit_samples_per_s"] == pytest.approx(2000, rel=1e-3)
    assert amdahl["misfit_ratio"] == pytest.approx(0, abs=1e-6)
    assert math.isnan(fit_scaling(make_runs((1, 2), 0.05, noise=0)).iloc[0]["misfit_ratio"])


def test_laws_that_cannot_be_told_apart_are_named() -> None:
    fits = fit_scaling(make_runs((1, 2, 4, 8), 0.05, 1e-4, noise=0.03))
    gap = fits["aicc"].max() - fits["aicc"].min()
    assert (gap < 2) == fits["reason"].str.contains("cannot be told apart").all()


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (make_runs((4,)), "one number of ranks (4)"),
        (make_runs((1, 2), outcome="failed"), "no run completed training"),
        (pd.concat([make_runs((1,)), make_runs((2,), global_batch_samples=100),
                    make_runs((4, 8), global_batch_samples=128)]), "one law cannot hold"),
        (make_runs((8, 16)).assign(train_rate_samples_per_s=[100.0] * 3 + [10.0] * 3), "no serial fraction explains"),
    ],
)  # fmt: skip
def test_refused_with_a_reason(runs: pd.DataFrame, reason: str) -> None:
    fits = fit_scaling(runs)
    assert len(fits) == 1
    assert reason in fits["reason"].iloc[0]
    assert reason in fits["sentence"].iloc[0]
    assert not fits["chosen"].any()
    assert fits[["serial_fraction_ratio", "one_rank_rate_samples_per_s", "aicc"]].isna().all(axis=None)
    curves = trace_scaling(runs)
    assert curves.empty
    assert list(curves.columns) == list(CURVE_COLUMNS)


def test_weak_scaling_has_a_law_of_its_throughput() -> None:
    parts = [make_runs((count,), global_batch_samples=16 * count, noise=0) for count in (1, 2, 4, 8)]
    fits = fit_scaling(pd.concat(parts))
    assert set(fits["regime"]) == {"weak"}
    assert fits.loc[fits["chosen"], "serial_fraction_ratio"].iloc[0] == pytest.approx(0.05, rel=1e-3)


def test_two_scales_give_the_serial_fraction_alone() -> None:
    runs = make_runs((1, 2), noise=0.02)
    row = fit_scaling(runs).iloc[0]
    assert row["law"] == "karp_flatt"
    speedup = compute_scaling(runs).set_index(["measure", "ranks"]).loc[("train_rate", 2), "speedup_ratio"]
    assert row["serial_fraction_ratio"] == pytest.approx((1 / speedup - 1 / 2) / (1 - 1 / 2))
    assert math.isnan(row["serial_fraction_low_ratio"])
    assert "no interval" in row["sentence"]
    curves = trace_scaling(runs)
    assert set(curves["kind"]) == {"interpolated"}
    assert curves["ranks"].max() == 2
    assert curves["rate_low_samples_per_s"].isna().all()


@pytest.mark.parametrize(("rates", "words"), [((100.0, 90.0), "falls"), ((100.0, 210.0), "grows faster")])
def test_odd_serial_fractions_are_explained(rates: tuple[float, float], words: str) -> None:
    runs = make_runs((1, 2), repeats=1).assign(train_rate_samples_per_s=rates)
    assert words in fit_scaling(runs)["reason"].iloc[0]


@pytest.mark.parametrize(("ranks", "repeats"), [((1, 2, 4), 3), ((1, 2, 4, 8), 1)])
def test_too_little_data_for_the_universal_law(ranks: tuple[int, ...], repeats: int) -> None:
    fits = fit_scaling(make_runs(ranks, repeats=repeats))
    assert fits["law"].tolist() == ["amdahl"]
    assert fits["chosen"].all()
    assert "needs 4 and 6" in fits["reason"].iloc[0]


def test_no_law_promises_more_than_the_ranks() -> None:
    """The base was measured at half of its rate: every law is then above an efficiency of 1."""
    runs = make_runs((1, 2, 4, 8), 0.01, noise=0)
    runs.loc[runs["ranks"] == 1, "train_rate_samples_per_s"] *= 0.47
    curves, fits = trace_scaling(runs), fit_scaling(runs)
    beyond = curves[curves["kind"] == "extrapolated"]
    assert not (beyond["efficiency_ratio"] > 1).any()
    assert fits["reason"].map(lambda reason: bool(BEYOND.find_in(reason) and TOO_EFFICIENT.find_in(reason))).all()
    fits = fit_scaling(make_runs((1, 2, 4, 8), 0.01, noise=0))
    assert not fits["reason"].str.contains("efficiency").any()


def test_linear_scaling_is_extrapolated_at_an_efficiency_of_one() -> None:
    curves = trace_scaling(make_runs((1, 2, 4, 8), 0.0, noise=0))
    beyond = curves[(curves["kind"] == "extrapolated") & (curves["law"] == "amdahl")]
    assert beyond["ranks"].max() == pytest.approx(64)


def test_curves_agree_with_points_and_widen_outside() -> None:
    runs = make_runs((2, 4, 8, 16), 0.05, noise=0.01)
    curves = trace_scaling(runs)
    chosen = curves[curves["chosen"]]
    assert chosen["ranks"].max() == pytest.approx(8 * 16)
    inside, outside = (chosen[chosen["kind"] == kind] for kind in ("interpolated", "extrapolated"))
    assert inside["ranks"].max() <= 16 < outside["ranks"].min()
    width = chosen["rate_high_samples_per_s"] / chosen["rate_low_samples_per_s"]
    assert width[outside.index].is_monotonic_increasing
    assert width[outside.index].max() > 2 * width[inside.index].max() - 1
    assert (chosen["efficiency_ratio"] * chosen["speedup_ideal_ratio"]).tolist() == pytest.approx(
        chosen["speedup_ratio"].tolist()
    )
    points = compute_scaling(runs).query("measure == 'train_rate'").set_index("ranks")["speedup_ratio"]
    at = inside.set_index("ranks")["speedup_ratio"]
    assert at[[2, 4, 8, 16]].tolist() == pytest.approx(points[[2, 4, 8, 16]].tolist(), rel=0.03)
    assert set(curves["baseline"]) == {"n1x2"}


def test_base_without_a_rate_leaves_the_curve_without_speedup() -> None:
    runs = pd.concat([make_runs((1,), outcome="failed"), make_runs((2, 4, 8))])
    curves = trace_scaling(runs)
    assert curves["speedup_ratio"].isna().all()
    assert curves["rate_samples_per_s"].notna().all()
    assert (curves["baseline_ranks"] == 1).all()


def test_equal_ranks_on_other_nodes_are_named() -> None:
    other = make_runs((4,), noise=0.02).assign(scale="n2x2", nodes=2)
    fits = fit_scaling(pd.concat([make_runs((1, 2, 4)), other]))
    assert fits["scales"].iloc[0] == 3
    assert "count as one" in fits["reason"].iloc[0]


def test_no_runs() -> None:
    nothing = make_runs((1,)).iloc[:0]
    assert fit_scaling(nothing).empty
    assert trace_scaling(nothing).empty
    assert list(fit_scaling(nothing).columns) == list(FIT_COLUMNS)


def test_order_of_runs_does_not_matter() -> None:
    runs = make_runs((1, 2, 4, 8), kappa=1e-3)
    first, second = (fit_scaling(frame).iloc[0] for frame in (runs, runs.iloc[::-1]))
    assert first["serial_fraction_ratio"] == pytest.approx(second["serial_fraction_ratio"], rel=1e-6)


def make_weak(ranks: tuple[int, ...], share: float, noise: float = 0.002) -> pd.DataFrame:
    """Return runs of weak scaling whose throughput follows Gustafson's law."""
    runs = pd.concat([make_runs((count,), 0.0, noise=noise, global_batch_samples=16 * count) for count in ranks])
    lost = (share + (1 - share) * runs["ranks"]) / runs["ranks"]
    return runs.assign(train_rate_samples_per_s=runs["train_rate_samples_per_s"] * lost)


def test_weak_scaling_follows_gustafson_and_not_amdahl() -> None:
    fits = fit_scaling(make_weak((1, 2, 4, 8, 16), 0.1)).set_index("law")
    assert set(fits.index) == {"gustafson", "universal"}
    best = fits.loc["gustafson"]
    assert best["chosen"]
    assert best["serial_fraction_ratio"] == pytest.approx(0.1, abs=0.01)
    assert best["serial_fraction_low_ratio"] < 0.1 < best["serial_fraction_high_ratio"]
    said = LAW.find_in(best["sentence"])
    assert (said["law"], said["where"]) == ("Gustafson's law", "1 to 16 ranks")
    assert said["share"].startswith("0.1")
    assert math.isnan(best["rate_limit_samples_per_s"])
    strong = fit_scaling(make_runs((1, 2, 4, 8, 16), 0.1))
    assert set(strong["law"]) == {"amdahl", "universal"}


def test_two_scales_of_weak_scaling_give_gustafsons_share() -> None:
    row = fit_scaling(make_weak((1, 2), 0.1, noise=0)).iloc[0]
    assert (row["law"], row["regime"]) == ("gustafson", "weak")
    assert row["serial_fraction_ratio"] == pytest.approx(0.1)
    assert math.isnan(row["serial_fraction_low_ratio"])
    assert EXACT_LAW(law="Gustafson's law", where="1 to 2 ranks", share="0.1") in row["sentence"]
    assert set(trace_scaling(make_weak((1, 2), 0.1, noise=0))["kind"]) == {"interpolated"}


def test_weak_scaling_that_rises_too_steeply_is_refused() -> None:
    runs = make_weak((8, 16), 0.0).assign(train_rate_samples_per_s=[10.0] * 3 + [100.0] * 3)
    assert "rises so steeply" in fit_scaling(runs)["reason"].iloc[0]


def test_a_falling_throughput_is_never_said_to_grow() -> None:
    """The universal law explains it by coherency alone; its contention of 0 does not describe the growth."""
    rates = {1: (10.0, 10.2), 2: (8.0, 8.1), 4: (3.0, 3.1), 8: (1.0, 1.1)}
    runs = make_runs(tuple(rates), repeats=2)
    runs["train_rate_samples_per_s"] = [rate for pair in rates.values() for rate in pair]
    fits = fit_scaling(runs).set_index("law")
    assert fits.loc["universal", "serial_fraction_ratio"] == pytest.approx(0, abs=1e-6)
    assert "no contention beside coherency" in fits.loc["universal", "reason"]
    assert not fits["reason"].str.contains("grows").any()
    assert AT_BOUND(side="does not grow with") in fits.loc["amdahl", "reason"]
