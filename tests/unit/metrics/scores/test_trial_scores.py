"""Scores of runs: relations between columns, undefined values, and dropped trials."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unit.record_factory import make_machine, make_mixed_study
from unit.score_factory import FLOP_PER_SAMPLE, make_power, make_scores, make_trials, make_work

from hpcai.config.workloads import BENCHMARKS
from hpcai.machine.work.step import FILLED
from hpcai.metrics.scaling.trials import mark_extremes
from hpcai.metrics.scores.columns import TRIAL_COLUMNS
from hpcai.metrics.scores.trial_scores import (
    ERROR_METRIC,
    METER_STOOD_STILL,
    NO_POWER,
    OTHER_SUITE,
    score_trials,
    why_no_vflops,
)
from hpcai.profiles.views import VIEWS
from hpcai.rules.table import rules_of

SCORES = ["rate_flop_per_s", "vflops_flop_per_s", "quality", "time_to_quality_s", "time_to_train_s", "mean_power_w"]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return make_scores(tmp_path_factory.mktemp("scored"))["run_scores"]


def test_every_run_is_a_row(scored: pd.DataFrame) -> None:
    assert tuple(scored.columns) == TRIAL_COLUMNS
    assert scored["run_id"].is_unique
    assert set(scored["outcome"]) == {"converged", "not_converged", "diverged", "failed", "timed_out"}


def test_rates_follow_from_throughput_and_work(scored: pd.DataFrame) -> None:
    complete = scored[scored["outcome"].isin(["converged", "not_converged"])]
    work = complete["benchmark"].map(FLOP_PER_SAMPLE)
    assert np.allclose(complete["rate_flop_per_s"], complete["train_rate_samples_per_s"] * work)
    assert set(complete["flop_method"]) == {"formula"}
    images = complete[complete["suite"] == "hpc_ai500"]
    coefficient = (images["quality"] / images["quality_target"]) ** 5
    assert np.allclose(images["vflops_flop_per_s"], images["rate_flop_per_s"] * coefficient)
    assert np.allclose(images["vflops_capped_flop_per_s"], images["rate_flop_per_s"] * coefficient.clip(upper=1))
    assert (images["exponent"] == 5).all()


def test_a_run_that_broke_down_earns_nothing_and_says_why(scored: pd.DataFrame) -> None:
    broken = scored[~scored["outcome"].isin(["converged", "not_converged"])]
    assert len(broken) == 3
    assert broken[SCORES].isna().all(axis=None)
    assert list(broken["reason"].str.startswith("no score, ")) == [True] * 3
    assert (broken["dropped"] == "").all()
    assert broken["reason"].str.contains("see stderr.log").any()


def test_time_to_quality_needs_an_end_and_time_to_train_the_target(scored: pd.DataFrame) -> None:
    missed = scored[scored["outcome"] == "not_converged"]
    assert missed["time_to_quality_s"].notna().all()
    assert missed["time_to_train_s"].isna().all()
    reached = scored[scored["outcome"] == "converged"]
    assert (reached["time_to_quality_s"] == reached["time_to_train_s"]).all()


def test_time_to_quality_holds_the_evaluations_that_stand_beside_it(tmp_path: Path) -> None:
    """HPC AI500 V2.0, 6.3.2: from the first training batch to the end of the last epoch, without a pause."""
    record = make_trials(1)[0]
    for name in ("run_scores", "scores"):
        row = make_scores(tmp_path, [record])[name].iloc[0]
        assert row["evaluation_s"] == pytest.approx(record.evaluation_s)
        assert row["time_to_quality_s"] > record.train_s + row["evaluation_s"]


def test_vflops_are_only_for_the_suites_own_workloads(scored: pd.DataFrame) -> None:
    other = scored[(scored["suite"] == "mlperf_hpc") & (scored["outcome"] == "converged")]
    assert other["vflops_flop_per_s"].isna().all()
    assert other["exponent"].isna().all()
    assert other["reason"].map(ERROR_METRIC.find_in).all()
    assert why_no_vflops("hpc_ai500", "extreme_weather", "mean_average_precision") == ""
    words = why_no_vflops("mlperf_hpc", "deepcam", "intersection_over_union")
    assert words == OTHER_SUITE(suite="MLPerf HPC")
    assert "error metric" in why_no_vflops("mlperf_hpc", "opencatalyst", "force_mean_absolute_error")


def test_every_workload_of_the_suite_has_an_exponent() -> None:
    exponents = rules_of("hpc_ai500").results.exponents
    assert exponents == {"image_classification": 5, "extreme_weather": 10}
    assert set(exponents) == {name for name, model in BENCHMARKS.items() if model.suite == "hpc_ai500"}
    assert rules_of("mlperf_hpc").results.exponents == {}


def test_extremes_of_vflops_are_dropped(tmp_path: Path) -> None:
    scored = make_scores(tmp_path, make_trials(10))["run_scores"].set_index("run_id")
    dropped = scored[scored["dropped"] != ""]["dropped"]
    assert sorted(dropped) == ["highest", "lowest"]
    ends = scored.loc[dropped.index, "vflops_flop_per_s"]
    assert ends[dropped == "highest"].tolist() == [scored["vflops_flop_per_s"].max()]
    assert ends[dropped == "lowest"].tolist() == [scored["vflops_flop_per_s"].min()]
    # The quickest trial is not the best one: the score that is reported decides.
    assert scored["rate_flop_per_s"].idxmax() != scored["vflops_flop_per_s"].idxmax()


@pytest.mark.parametrize("count", [2, 3, 9])
def test_fewer_trials_than_the_rules_ask_for_are_too_few_to_drop_any(tmp_path: Path, count: int) -> None:
    assert (make_scores(tmp_path, make_trials(count))["run_scores"]["dropped"] == "").all()


def test_order_of_runs_does_not_matter(tmp_path: Path) -> None:
    tables = make_scores(tmp_path)
    arguments = tables["work"].sample(frac=1, random_state=2), tables["power"], make_machine()
    shuffled = score_trials(tables["runs"].sample(frac=1, random_state=1), *arguments)
    pd.testing.assert_frame_equal(shuffled, tables["run_scores"])


def test_equal_scores_still_drop_two(tmp_path: Path) -> None:
    tables = make_scores(tmp_path, make_trials(10))
    equal = tables["runs"].assign(train_rate_samples_per_s=100.0, last_quality=0.6)
    scored = score_trials(equal.assign(dropped=mark_extremes(equal)), tables["work"], tables["power"])
    assert sorted(scored["dropped"]) == [*[""] * 8, "highest", "lowest"]


@pytest.mark.parametrize("known", [False, True])
def test_without_work_there_is_throughput_alone(tmp_path: Path, known: bool) -> None:
    runs = make_scores(tmp_path, make_trials(10))["runs"]
    work = (
        make_work(runs).assign(flop_per_sample=np.nan, reason="the layer is not known")
        if known
        else make_work(runs[:0])
    )
    scored = score_trials(runs, work, pd.DataFrame(columns=list(VIEWS["power"])))
    assert scored[["rate_flop_per_s", "vflops_flop_per_s", "flop_per_sample"]].isna().all(axis=None)
    assert scored["train_rate_samples_per_s"].notna().all()
    expected = "the layer is not known" if known else "its work was not counted"
    assert scored["reason"].str.startswith(f"no FLOPS: {expected}").all()
    assert (scored["dropped"] != "").sum() == 2


def test_work_that_was_counted_on_something_else_gives_no_rate(tmp_path: Path) -> None:
    runs = make_scores(tmp_path, make_trials(1))["runs"]
    work = make_work(runs).assign(rate_flop_per_s=np.nan, reason=FILLED)
    scored = score_trials(runs, work, pd.DataFrame(columns=list(VIEWS["power"])))
    assert scored["rate_flop_per_s"].isna().all()
    assert scored["reason"].str.startswith(f"no FLOPS: {FILLED}").all()


def test_scores_per_watt(tmp_path: Path) -> None:
    point = {"benchmark": "images_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x1"}
    scored = make_scores(tmp_path, power=make_power(point, mean_power_w=50.0))["run_scores"]
    here = (scored[list(point)] == pd.Series(point)).all(axis=1)
    assert scored.loc[here, "flop_per_j"].equals(scored.loc[here, "rate_flop_per_s"] / 50)
    assert scored.loc[here, "vflops_flop_per_j"].equals(scored.loc[here, "vflops_flop_per_s"] / 50)
    assert set(scored.loc[here, "power_method"]) == {"measured"}
    assert scored.loc[~here, ["mean_power_w", "flop_per_j"]].isna().all(axis=None)
    ended = scored["outcome"].isin(["converged", "not_converged"])
    assert scored.loc[~here & ended, "reason"].str.contains(NO_POWER(), regex=False).all()


def test_power_of_another_run_is_said_to_be(tmp_path: Path) -> None:
    point = {"benchmark": "images_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x1"}
    tables = make_scores(tmp_path / "a", make_trials(3), power=make_power(point))
    words = "power: measured in a profiled run of the same benchmark, variant and scale, not in the timed one"
    assert tables["run_scores"]["reason"].str.contains(words, regex=False).all()
    assert tables["scores"]["reason"].str.contains(words, regex=False).all()
    power = {"node_power_w": "0.4 kW", "source": "data sheet, 2024-05-01"}
    declared = make_scores(tmp_path / "b", make_trials(3), machine=make_machine(power=power))
    assert not declared["run_scores"]["reason"].str.contains("profiled run").any()


def test_a_counter_that_stands_still_gives_no_score_per_watt(tmp_path: Path) -> None:
    point = {"benchmark": "images_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x1"}
    scored = make_scores(tmp_path, make_trials(3), power=make_power(point, mean_power_w=0.0))["run_scores"]
    assert scored[["mean_power_w", "flop_per_j", "vflops_flop_per_j"]].isna().all(axis=None)
    assert (scored["power_method"] == "").all()
    assert scored["reason"].str.contains(METER_STOOD_STILL(meter="rapl", watts=0), regex=False).all()


def test_declared_power_belongs_to_its_own_machine(tmp_path: Path) -> None:
    power = {"node_power_w": "0.4 kW", "source": "data sheet, 2024-05-01"}
    records = make_mixed_study()
    own = make_scores(tmp_path / "own", records, machine=make_machine(power=power))["run_scores"]
    ended = own["outcome"].isin(["converged", "not_converged"])
    assert set(own.loc[ended, "mean_power_w"]) == {400.0}
    assert set(own.loc[ended, "power_method"]) == {"declared"}
    assert set(own.loc[ended, "power_source"]) == {"data sheet, 2024-05-01"}
    other = make_scores(tmp_path / "other", records, machine=make_machine(power=power, name="elsewhere"))
    assert other["run_scores"]["mean_power_w"].isna().all()
