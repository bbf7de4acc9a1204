"""Effects of variants: the reference is the plainest, effects are recovered, joint changes and chance are marked."""

import itertools
import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.scores.columns import TRIAL_COLUMNS
from hpcai.metrics.scores.variant_effects import (
    EFFECT_COLUMNS,
    OTHER_SETTING,
    OTHER_SURROUNDINGS,
    SETTINGS,
    SURROUNDINGS,
    WORDS,
    compare_variants,
)
from hpcai.metrics.statistics.significance import SAME_VALUES, compare_samples, correct_holm

PLAIN = {
    "precision": "fp32", "compression": "none", "accumulation": 1, "batchnorm_group": 1, "spatial_parts": 1,
    "gradient_groups": 1, "fusion_bytes": math.nan,
    "engine": "horovod", "cycle_time_s": math.nan, "global_batch_samples": 64,
    "allreduce_topology": "default", "evaluation_batch": math.nan, "evaluation_cache": "none", "training_cache": "none",
}  # fmt: skip
SAME: dict[str, Any] = dict.fromkeys(SURROUNDINGS, "same")
NO_SCORES = pd.DataFrame(columns=list(TRIAL_COLUMNS))


def make_runs(variant: str, rates: list[float], scale: int = 1, **columns: Any) -> pd.DataFrame:
    rows = [
        {
            "run_id": f"b/{variant}/n1x{scale}/r{number}",
            "benchmark": "b",
            "variant": variant,
            "scale": f"n1x{scale}",
            "nodes": 1,
            "ranks": scale,
            "outcome": "converged",
            "train_rate_samples_per_s": rate,
            "evaluation_rate_samples_per_s": 50.0,
            "time_to_train_s": 1000 / rate,
            "last_quality": 0.7 + 0.001 * number,
            "quality_metric": "top_1_accuracy",
            "quality_unit": "",
            "record_path": f"results/runs/b/{variant}/n1x{scale}/r{number}/record.json",
            **PLAIN,
            **SAME,
            **columns,
        }
        for number, rate in enumerate(rates, 1)
    ]
    return pd.DataFrame(rows)


def effects_of(*parts: pd.DataFrame, scores: pd.DataFrame = NO_SCORES) -> pd.DataFrame:
    return compare_variants(pd.concat(parts), scores)


def test_effect_is_the_ratio_of_the_means() -> None:
    table = effects_of(
        make_runs("fp32", [100, 101, 99]), make_runs("bf16", [150, 151.5, 148.5], precision="bf16")
    ).set_index("measure")
    assert list(table.reset_index().columns.sort_values()) == sorted(EFFECT_COLUMNS)
    rate, time = table.loc["train_rate"], table.loc["time_to_train"]
    assert (rate["variant"], rate["reference_variant"]) == ("bf16", "fp32")
    assert rate["effect_ratio"] == pytest.approx(1.5)
    assert rate["effect_low_ratio"] < 1.5 < rate["effect_high_ratio"]
    assert time["effect_ratio"] == pytest.approx(2 / 3)
    assert (rate["reading"], time["reading"]) == ("better", "better")
    assert (rate["n"], rate["n_reference"]) == (3, 3)
    assert rate["changes"] == "precision bf16 instead of fp32"
    assert (rate["differs_in"], rate["joint"]) == (1, False)
    assert rate["source"] == "results/runs/b/bf16/n1x1"


@pytest.mark.parametrize("names", list(itertools.permutations("abc")), ids="".join)
@settings(max_examples=3)
@given(factor=st.floats(0.1, 10))
def test_names_and_order_do_not_choose_the_reference(names: tuple[str, ...], factor: float) -> None:
    parts = [
        make_runs(names[0], [100 * factor, 102 * factor], precision="bf16", compression="fp16"),
        make_runs(names[1], [80 * factor, 81 * factor]),
        make_runs(names[2], [90 * factor, 95 * factor], precision="bf16"),
    ]
    table = effects_of(*parts)
    pairs = table[["variant", "reference_variant"]].drop_duplicates()
    assert sorted(map(tuple, pairs.to_numpy())) == sorted(
        [(names[2], names[1]), (names[0], names[1]), (names[0], names[2])]
    )
    pd.testing.assert_frame_equal(table, effects_of(*parts[::-1]))
    joint = table[table["joint"]]
    assert set(zip(joint["variant"], joint["reference_variant"], strict=True)) == {(names[0], names[1])}
    assert (joint["differs_in"] == 2).all()


def rated(table: pd.DataFrame) -> dict[str, Any]:
    return {str(name): value for name, value in table.set_index("measure").loc["train_rate"].items()}


@pytest.mark.parametrize(
    ("base", "other"), [([100, 100.5], [95, 95.2]), ([100, 101, 99], [150, 151.5, 148.5]), ([100.0] * 4, [110.0] * 4)]
)
def test_variants_and_results_are_judged_by_one_rule(base: list[float], other: list[float]) -> None:
    table = effects_of(make_runs("fp32", base), make_runs("bf16", other, precision="bf16"))
    row, change = rated(table), compare_samples(base, other)
    assert (row["p_t"], row["p_permutation"]) == pytest.approx((change.p_t, change.p_permutation), nan_ok=True)
    assert table["p_corrected"].tolist() == pytest.approx(
        correct_holm(table["p_bounded"].fillna(table["p_permutation"]).tolist()), nan_ok=True
    )
    assert (row["reading"] in ("better", "worse")) == change.is_significant(row["p_corrected"])


def test_two_runs_whose_interval_misses_no_effect_are_not_called_worse() -> None:
    row = rated(effects_of(make_runs("a", [100.0, 100.5]), make_runs("b", [98.0, 98.4], precision="bf16")))
    assert row["effect_high_ratio"] < 1
    assert row["reading"] == "not distinguishable"


def test_effects_are_corrected_for_their_number() -> None:
    def reading(scales: int) -> str:
        parts = [
            make_runs(name, rates, scale, precision=precision)
            for scale in range(1, scales + 1)
            for name, precision, rates in (("a", "fp32", [100, 103, 97]), ("b", "bf16", [128.0, 132, 125]))
        ]
        table = effects_of(*parts)
        return str(table[(table["measure"] == "train_rate") & (table["scale"] == "n1x1")]["reading"].iloc[0])

    assert (reading(1), reading(8)) == ("better", "not distinguishable")


@pytest.mark.parametrize("runs", [2, 3])
def test_runs_without_spread_have_no_interval_and_no_verdict(runs: int) -> None:
    row = rated(effects_of(make_runs("a", [100.1] * runs), make_runs("b", [90.7] * runs, precision="bf16")))
    assert math.isnan(row["effect_low_ratio"])
    assert row["reading"] == "too few runs"
    assert "no spread" in row["note"]
    good, poor = (make_runs(name, [100.0] * runs, accumulation=count) for name, count in (("a", 1), ("b", 2)))
    equal = effects_of(good.assign(last_quality=0.7), poor.assign(last_quality=0.6)).set_index("measure").loc["quality"]
    assert math.isnan(equal["difference_low"])
    assert equal["reading"] == "too few runs"
    same = effects_of(good.assign(last_quality=0.7), poor.assign(last_quality=0.7)).set_index("measure").loc["quality"]
    assert same["reading"] == "not distinguishable"
    assert same["note"] == SAME_VALUES


def test_same_values_have_no_effect() -> None:
    table = effects_of(make_runs("a", [100, 110]), make_runs("b", [100, 110], fusion_bytes=2.0**20))
    ratios = table.dropna(subset=["effect_ratio"])
    assert ratios["effect_ratio"].tolist() == pytest.approx([1.0, 1.0])
    assert (ratios["reading"] == "not distinguishable").all()
    assert table["changes"].iloc[0] == OTHER_SETTING(
        what="fusion:", here="up to 1 MiB", there="all gradients in one group"
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_named(name: str) -> None:
    other = {"precision": "fp16", "compression": "fp16"}.get(name, 128)
    row = effects_of(make_runs("a", [100, 110]), make_runs("z", [100, 110], **{name: other})).iloc[0]
    assert row["variant"] == "z"
    assert row["differs_in"] == 1
    assert row["changes"].startswith(WORDS[name][0])
    assert " instead of " in row["changes"]
    assert "nan" not in row["changes"]


def test_quality_is_a_difference() -> None:
    good, poor = make_runs("a", [100, 100]), make_runs("b", [100, 100], accumulation=2)
    poor["last_quality"] -= 0.1
    row = effects_of(good, poor).set_index("measure").loc["quality"]
    assert row["difference"] == pytest.approx(-0.1)
    assert row["difference_low"] < -0.1 < row["difference_high"]
    assert math.isnan(row["effect_ratio"])
    assert row["reading"] == "worse"
    errors = [part.assign(quality_metric="mean_absolute_error") for part in (good, poor)]
    assert effects_of(*errors).set_index("measure").loc["quality", "reading"] == "better"


def test_scores_are_compared_where_they_exist() -> None:
    runs = pd.concat([make_runs("a", [100, 101]), make_runs("b", [150, 151], precision="bf16")])
    scores = pd.DataFrame(
        {
            "run_id": runs["run_id"],
            "rate_flop_per_s": runs["train_rate_samples_per_s"] * 1e9,
            "vflops_flop_per_s": math.nan,
            "reason": "no VFLOPS: an error metric",
        }
    ).reindex(columns=list(TRIAL_COLUMNS))
    table = compare_variants(runs, scores).set_index("measure")
    assert table.loc["rate", "effect_ratio"] == pytest.approx(table.loc["train_rate", "effect_ratio"])
    assert math.isnan(table.loc["vflops", "effect_ratio"])
    assert table.loc["vflops", "note"] == "no VFLOPS: an error metric"
    assert table.loc["vflops", "reading"] == ""


def test_runs_that_earned_nothing_do_not_count() -> None:
    failed = make_runs("b", [1.0], precision="bf16", outcome="failed", quality_metric="", time_to_train_s=math.nan)
    table = effects_of(make_runs("a", [100, 101]), failed, make_runs("b", [150.0], precision="bf16"))
    row = table.set_index("measure").loc["train_rate"]
    assert (row["n"], row["effect_ratio"]) == (1, pytest.approx(150 / 100.5))
    assert math.isnan(row["effect_low_ratio"])
    assert "no interval" in row["note"]
    assert row["reading"] == ""
    assert set(table.loc[table["measure"] == "quality", "quality_metric"]) == {"top_1_accuracy"}


def test_other_differences_are_named() -> None:
    row = effects_of(make_runs("a", [1, 2]), make_runs("b", [1, 2], precision="bf16", commit="other")).iloc[0]
    assert row["note"] == OTHER_SURROUNDINGS(names="commit")


def test_same_settings_under_two_names() -> None:
    row = effects_of(make_runs("a", [1, 2]), make_runs("b", [1, 2])).iloc[0]
    assert row["differs_in"] == 0
    assert "chance" in row["note"]


def test_scales_are_never_mixed() -> None:
    table = effects_of(make_runs("a", [100, 101]), make_runs("b", [150, 151], scale=2, precision="bf16"))
    assert table.empty
    assert list(table.columns) == list(EFFECT_COLUMNS)


def test_one_variant_is_the_reference_at_all_scales() -> None:
    """At one rank weak scaling has the smaller batch, at two the same: each scale alone would choose another."""
    batches = {("fp32", 1): 128, ("fp32", 2): 128, ("weak", 1): 64, ("weak", 2): 128}
    parts = [
        make_runs(variant, [100, 101], scale=scale, global_batch_samples=batch)
        for (variant, scale), batch in batches.items()
    ]
    table = effects_of(*parts)
    assert set(table["scale"]) == {"n1x1", "n1x2"}
    assert set(table["variant"]) == {"weak"}
    assert set(table["reference_variant"]) == {"fp32"}


def test_nothing_to_compare() -> None:
    assert effects_of(make_runs("a", [100, 101])).empty
    assert effects_of(make_runs("a", [1.0]).iloc[:0]).empty


def test_evaluations_are_compared_only_where_they_differ() -> None:
    plain = make_runs("plain", [100.0, 101.0], evaluation_rate_samples_per_s=50.0)
    large = make_runs("large", [100.0, 101.0], evaluation_rate_samples_per_s=150.0, evaluation_batch=32)
    narrow = make_runs("bf16", [150.0, 151.0], evaluation_rate_samples_per_s=60.0, precision="bf16")
    effects = effects_of(plain, large, narrow)
    found = effects[effects["measure"] == "evaluation_rate"].set_index("variant")
    # Against the plain one alone: bf16 evaluates as many samples at once.
    assert set(found.index) == {"large"}
    assert found["effect_ratio"].to_list() == pytest.approx([3.0])
    assert "evaluation_rate" not in set(effects_of(plain, narrow)["measure"])
