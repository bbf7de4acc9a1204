"""Scores of results: the paper's procedure, the best result of a machine, and exponents that are never mixed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.record_factory import make_machine, make_official_plan, make_record, make_two_suites
from unit.score_factory import FLOP_PER_SAMPLE, QUALITIES, Tables, make_power, make_scores, make_trials

from hpcai.catalogue.tables import kind_of
from hpcai.metrics.reproducibility import reproducibility_table
from hpcai.metrics.roofline.samples_above import TOLERANCE_RATIO
from hpcai.metrics.run_tables import write_table
from hpcai.metrics.scores import best_results, result_scores, validity
from hpcai.metrics.scores.columns import (
    MACHINE_COLUMNS,
    SCORE_COLUMNS,
    TIMINGS,
    TRIAL_COLUMNS,
    score_frame,
)
from hpcai.metrics.scores.result_scores import (
    name_datasets,
    name_divisions,
    refuse_mixed_exponents,
    score_machines,
    score_scales,
)
from hpcai.metrics.scores.trial_scores import EARNED_NONE, ERROR_METRIC, score_trials
from hpcai.metrics.scores.window import CHOSEN
from hpcai.metrics.statistics.summaries import Sample, interval_of, variation_ratio
from hpcai.rules.judge import judge
from hpcai.rules.table import rules_of

DATASETS = {"images_tiny": "images_tiny (generated)"}
RATES = ("train_rate_samples_per_s", "rate_flop_per_s", "vflops_flop_per_s")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_scores(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_scores(tmp_path_factory.mktemp("trials"), [*make_trials(10), *make_trials(2, ranks_per_node=2)])


def at(frame: pd.DataFrame, scale: str, benchmark: str = "images_tiny") -> pd.DataFrame:
    return frame[(frame["scale"] == scale) & (frame["benchmark"] == benchmark)]


def test_every_scale_is_a_row(tables: Tables) -> None:
    scores, scales = tables["scores"], tables["scales"]
    assert tuple(scores.columns) == SCORE_COLUMNS
    keys = ["benchmark", "variant", "engine", "scale"]
    pd.testing.assert_frame_equal(scores[keys], scales[keys])
    assert list(scores["label"]) == list(scales["label"])
    assert list(scores["runs_by_rule"]) == list(scales["runs_by_rule"])
    assert set(scores["method"]) == {"measured"}
    assert set(scores["origin"]) == {"default"}
    assert set(scores["machine"]) == {"testbox"}


def test_the_score_leaves_out_the_extremes(trials: Tables) -> None:
    score, own = at(trials["scores"], "n1x1").iloc[0], at(trials["run_scores"], "n1x1")
    ordered = own.sort_values("vflops_flop_per_s")
    kept = ordered.iloc[1:-1]
    assert (score["n"], score["n_scored"], score["runs_by_rule"]) == (10, 8, 10)
    assert score["statistic"] == "mean of 8, extremes dropped"
    for column in (*RATES, "quality", "time_to_quality_s", "evaluation_s"):
        assert score[column] == pytest.approx(kept[column].mean()), column
    assert score["quality"] == pytest.approx(np.mean(sorted(2 * QUALITIES)[1:-1]))
    assert score["quality_coefficient_ratio"] == score["vflops_flop_per_s"] / score["rate_flop_per_s"]
    assert score["vflops_capped_flop_per_s"] < score["vflops_flop_per_s"]
    which = "highest and lowest VFLOPS dropped"
    section = rules_of("hpc_ai500").results.section
    mean = result_scores.EXTREMES_DROPPED(kept=8, n=10, word="trial", which=which, section=section)
    assert score["score_method"].startswith(mean)


def test_intervals_are_of_the_same_trials_and_variation_over_all(trials: Tables) -> None:
    score, own = at(trials["scores"], "n1x1").iloc[0], at(trials["run_scores"], "n1x1")
    kept = own[own["dropped"] == ""]
    for rate in RATES:
        stem, unit = next(
            (rate.removesuffix(f"_{end}"), end) for end in ("samples_per_s", "flop_per_s") if rate.endswith(end)
        )
        interval = interval_of(Sample(kept[rate].to_numpy(), "olympic"))
        low, high = (f"{stem}_{side}_{unit}" for side in ("low", "high"))
        assert (interval.n, score[rate]) == (8, pytest.approx(interval.value))
        assert (score[low], score[high]) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert score["vflops_variation_ratio"] == pytest.approx(variation_ratio(own["vflops_flop_per_s"]))
    assert score["rate_variation_ratio"] == pytest.approx(variation_ratio(own["rate_flop_per_s"]))


def test_fewer_trials_than_the_rules_ask_for_are_a_median_that_says_so(trials: Tables) -> None:
    score, own = at(trials["scores"], "n1x2").iloc[0], at(trials["run_scores"], "n1x2")
    assert (score["n"], score["n_scored"], score["statistic"]) == (2, 2, "median of 2")
    assert score["vflops_flop_per_s"] == pytest.approx(own["vflops_flop_per_s"].median())
    assert score["score_method"].startswith(
        result_scores.TOO_FEW_TO_DROP(number="median of 2", by_rule=10, word="trial")
    )
    assert validity.TOO_FEW(word="trial", counted=2, by_rule=10) in score["label"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 10, 11])
def test_all_numbers_of_a_row_are_of_the_same_trials(count: int, tmp_path: Path) -> None:
    """Flops over throughput is the work of a sample in every table, and so is the ratio of their bounds."""
    made = make_scores(tmp_path, [*make_trials(count), *make_trials(3, ranks_per_node=2)])
    scores, scales = (made[name].set_index("scale") for name in ("scores", "scales"))
    for side in ("", "low_", "high_"):
        rate = scores[f"rate_{side}flop_per_s"] / scores[f"train_rate_{side}samples_per_s"]
        assert rate.dropna().tolist() == pytest.approx([FLOP_PER_SAMPLE["images_tiny"]] * len(rate.dropna()))
        pd.testing.assert_series_equal(
            scores[f"train_rate_{side}samples_per_s"], scales[f"train_rate_{side}samples_per_s"]
        )
    assert scores["statistic"].to_dict() == scales["statistic"].to_dict()
    assert scores["n_scored"].to_dict() == scales["rate_n"].to_dict()
    flops = scores["rate_flop_per_s"]
    assert scales.loc["n1x2", "train_rate_efficiency_ratio"] == pytest.approx(flops["n1x2"] / flops["n1x1"] / 2)
    kept = made["run_scores"].query("scale == 'n1x1' and dropped == ''")
    ends = [scores.loc["n1x1", f"train_rate_{side}_samples_per_s"] for side in ("low", "high")]
    if 1 < len(kept) < 5:
        assert ends == [kept["train_rate_samples_per_s"].min(), kept["train_rate_samples_per_s"].max()]


def test_runs_of_mlperf_lose_the_fastest_and_the_slowest(tmp_path: Path) -> None:
    """All numbers are from the runs of the time to train, not from those with the highest and lowest rate."""
    runs = [make_record(repetition=number) for number in range(1, 11)]
    made = make_scores(tmp_path, runs)
    score, own = made["scores"].iloc[0], made["run_scores"].sort_values("time_to_train_s")
    assert own["dropped"].tolist() == ["highest", *[""] * 8, "lowest"]
    kept = own.iloc[1:-1]
    assert score["time_to_train_s"] == pytest.approx(kept["time_to_train_s"].mean())
    assert score["rate_flop_per_s"] == pytest.approx(kept["rate_flop_per_s"].mean())
    section = rules_of("mlperf_hpc").results.section
    facts = {"kept": 8, "n": 10, "word": "run", "which": "fastest and slowest dropped", "section": section}
    assert score["score_method"].startswith(result_scores.EXTREMES_DROPPED(**facts))


def test_of_more_runs_of_mlperf_all_numbers_are_those_of_the_window(tmp_path: Path) -> None:
    made = make_scores(tmp_path, [make_record(repetition=number) for number in range(1, 13)])
    score, own = made["scores"].iloc[0], made["run_scores"]
    kept = own[own["dropped"] == ""]
    assert sorted(own["dropped"]) == [*[""] * 8, "highest", "lowest", "outside", "outside"]
    assert (score["n"], score["n_scored"], score["runs_by_rule"]) == (12, 8, 10)
    for column in ("train_rate_samples_per_s", "rate_flop_per_s", "time_to_train_s"):
        assert score[column] == pytest.approx(kept[column].mean()), column
    section = rules_of("mlperf_hpc").results.section
    facts = {"kept": 8, "n": 10, "word": "run", "which": "fastest and slowest dropped", "section": section}
    assert score["score_method"].startswith(result_scores.EXTREMES_DROPPED(**facts))
    assert CHOSEN.find_in(score["score_method"])


def test_without_vflops_there_are_flops(tables: Tables) -> None:
    score = at(tables["scores"], "n1x1", "cosmoflow_tiny").iloc[0]
    own = at(tables["run_scores"], "n1x1", "cosmoflow_tiny")
    assert score["rate_flop_per_s"] == pytest.approx(own["rate_flop_per_s"].median())
    assert score["statistic"] == "median of 4"
    assert result_scores.NO_SUITE_SCORE(suite="MLPerf HPC") in score["score_method"]
    assert np.isnan(score["vflops_flop_per_s"])
    assert np.isnan(score["quality_coefficient_ratio"])
    assert ERROR_METRIC(metric=score["quality_metric"]) in score["reason"]


def test_runs_that_broke_down_are_counted_in_words(tables: Tables) -> None:
    score = at(tables["scores"], "n1x2", "cosmoflow_tiny").iloc[0]
    assert (score["n"], score["n_scored"]) == (2, 2)
    assert score["statistic"] == "median of 2"
    assert result_scores.BROKEN(broken=3, n=5) in score["score_method"]
    assert "no score" not in score["reason"]


def test_a_scale_without_a_score_says_why(tmp_path: Path) -> None:
    records = [make_record("failed"), make_record("timed_out", repetition=2)]
    made = make_scores(tmp_path, records)
    score = made["scores"].iloc[0]
    assert (score["n"], score["n_scored"]) == (0, 0)
    assert score[["rate_flop_per_s", "train_rate_samples_per_s", "quality", "rate_low_flop_per_s"]].isna().all()
    assert score["score_method"] == result_scores.NO_SCORE(reason=validity.NONE_FINISHED(n=2, word="run"))
    assert EARNED_NONE(outcome="failed", reason="rank 1 ended with signal 9") in score["reason"]
    machine = score_machines(made["scores"]).iloc[0]
    assert machine["chosen_because"] == best_results.ONLY_WITHOUT_SCORE()


def test_time_to_train_is_the_suites_own(tables: Tables) -> None:
    scores, scales = tables["scores"], tables["scales"]
    pd.testing.assert_series_equal(scores["time_to_train_s"], scales["time_to_train_score_s"], check_names=False)


def test_source_is_the_folder_of_the_records(trials: Tables) -> None:
    for score in trials["scores"].itertuples():
        paths = [Path(path) for path in at(trials["run_scores"], str(score.scale))["record_path"]]
        assert {path.parent.parent for path in paths} == {Path(str(score.source))}


@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(12)))
def test_order_of_trials_does_not_matter(trials: Tables, order: list[int]) -> None:
    runs, run_scores = trials["runs"].iloc[order], trials["run_scores"].iloc[order]
    shuffled = score_scales(run_scores, runs, trials["scales"], DATASETS, make_machine())
    pd.testing.assert_frame_equal(shuffled.sort_values("ranks", ignore_index=True), trials["scores"])


rates = st.lists(st.floats(min_value=1.0, max_value=1e6), min_size=10, max_size=10)


@settings(deadline=None, max_examples=20)
@given(speeds=rates, qualities=st.lists(st.floats(min_value=0.01, max_value=1.0), min_size=10, max_size=10))
def test_score_lies_within_its_trials(trials: Tables, speeds: list[float], qualities: list[float]) -> None:
    runs = at(trials["runs"], "n1x1").assign(train_rate_samples_per_s=speeds, last_quality=qualities)
    scored = score_trials(runs, trials["work"], trials["power"])
    score = score_scales(scored, runs, trials["scales"], DATASETS).iloc[0]
    for column in ("rate_flop_per_s", "vflops_flop_per_s", "quality", "vflops_capped_flop_per_s"):
        low, high = scored[column].min(), scored[column].max()
        assert low * (1 - 1e-12) <= score[column] <= high * (1 + 1e-12)
    coefficient = score["quality_coefficient_ratio"]
    assert scored["quality_coefficient_ratio"].min() * (1 - 1e-9) <= coefficient
    assert coefficient <= scored["quality_coefficient_ratio"].max() * (1 + 1e-9)
    assert score["quality_coefficient_capped_ratio"] <= min(1.0, coefficient) * (1 + 1e-12)


def test_the_peak_of_shared_accelerators_counts_once(tmp_path: Path) -> None:
    peaks = {"fp32": {"rate_flop_per_s": "15.7 TFLOP/s", "source": "data sheet, 2020-01-01"}}
    device = {"kind": "gpu", "peaks": peaks, "shared_by_ranks": True}
    machine = make_machine(accelerators_per_node=1, device=device)
    made = make_scores(tmp_path, make_trials(1, ranks_per_node=2), machine=machine)["scores"]
    assert made["peak_flop_per_s"].tolist() == [15.7e12]


def test_facts_declared_between_two_runs_count_for_both(tmp_path: Path) -> None:
    peaks = {"fp32": {"rate_flop_per_s": "15.7 TFLOP/s", "source": "data sheet, 2020-01-01"}}
    later = make_machine(nodes=3, device={"kind": "cpu", "peaks": peaks})
    records = [make_trials(1)[0], make_trials(2, machine=later)[1]]
    made = make_scores(tmp_path, records, machine=later)
    assert len(made["runs"]) == len(made["run_scores"]) == 2
    assert made["scores"][["n", "peak_flop_per_s"]].to_dict("records") == [{"n": 2, "peak_flop_per_s": 15.7e12}]
    assert len(reproducibility_table(records)) == 1


def test_the_peak_is_that_of_the_precision_used(tmp_path: Path) -> None:
    peaks = {"fp32": {"rate_flop_per_s": "15.7 TFLOP/s", "source": "data sheet, 2020-01-01"}}
    device = {"kind": "cpu", "peaks": peaks}
    records = [
        *make_trials(1, ranks_per_node=2),
        *make_trials(1, variant="fp16", settings_of_point={"precision": "fp16"}),
    ]
    made = make_scores(tmp_path, records, machine=make_machine(device=device))["scores"].set_index("variant")
    assert made.loc["fp32", "peak_flop_per_s"] == 2 * 15.7e12
    assert made.loc["fp32", "peak_ratio"] == made.loc["fp32", "rate_flop_per_s"] / (2 * 15.7e12)
    assert made.loc["fp32", "peak_source"] == result_scores.PEAK_SOURCE(
        precision="fp32", source="data sheet, 2020-01-01"
    )
    assert np.isnan(made.loc["fp16", "peak_flop_per_s"])
    assert made.loc["fp16", "peak_source"] == ""
    assert result_scores.NO_PEAK(precision="fp16") in made.loc["fp16", "reason"]


def test_per_watt_is_the_ratio_of_the_scores(tmp_path: Path) -> None:
    point = {"benchmark": "images_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x1"}
    score = make_scores(tmp_path, make_trials(4), power=make_power(point, mean_power_w=40.0))["scores"].iloc[0]
    assert score["flop_per_j"] == pytest.approx(score["rate_flop_per_s"] / 40)
    assert score["vflops_flop_per_j"] == pytest.approx(score["vflops_flop_per_s"] / 40)
    assert (score["mean_power_w"], score["power_method"]) == (40.0, "measured")


def official_record(**changes: Any) -> Any:
    plan = make_official_plan("resnet50", **changes)
    return make_record(
        "not_converged", **{name: getattr(plan, name) for name in ("benchmark", "seeds", "time_staging")}
    )


def test_datasets_are_official_only_where_the_rules_find_nothing() -> None:
    tiny = make_trials(1)[0]
    assert name_datasets([tiny]) == {"images_tiny": "images_tiny (generated)"}
    official = official_record().model_copy(update={"data_source": "downloaded"})
    unjudged = official.model_copy(update={"verdicts": ()})
    assert name_datasets([unjudged]) == {"resnet50": "imagenet (downloaded)"}
    assert name_datasets([official_record()]) == {"resnet50": "imagenet (generated)"}
    verdicts = judge(official.plan, official.facts)
    assert name_datasets([official.model_copy(update={"verdicts": verdicts})]) == {"resnet50": "imagenet (official)"}


def test_the_best_result_of_a_machine(trials: Tables) -> None:
    scores = trials["scores"]
    other = scores.assign(machine="elsewhere")
    best = score_machines(pd.concat([scores, other]))
    assert tuple(best.columns) == MACHINE_COLUMNS
    assert list(best["machine"]) == ["elsewhere", "testbox"]
    assert best["vflops_flop_per_s"].iloc[0] == scores["vflops_flop_per_s"].max()
    assert set(best["chosen_because"]) == {best_results.BEST(word="highest", measure="VFLOPS", n=2)}


def test_different_datasets_are_not_rivals(trials: Tables) -> None:
    scores = trials["scores"].assign(dataset=["images_tiny (generated)", "imagenet (official)"])
    assert len(score_machines(scores)) == 2


def test_the_time_to_train_chooses_where_no_vflops_are_defined(tables: Tables) -> None:
    own = at_benchmark(tables, "cosmoflow_tiny")
    assert len(own) == 2
    slow, fast = own.index
    times = tables["scores"].assign(time_to_train_s=pd.Series({slow: 20.0, fast: 10.0}))
    times["rate_flop_per_s"] = pd.Series({slow: 2e9, fast: 1e9})
    best = score_machines(times).set_index("benchmark").loc["cosmoflow_tiny"]
    assert best["time_to_train_s"] == 10.0
    assert best["chosen_because"] == best_results.BEST(word="shortest", measure="time to train", n=2)
    times.loc[fast, "time_to_train_s"] = np.nan
    assert score_machines(times).set_index("benchmark").loc["cosmoflow_tiny", "time_to_train_s"] == 20.0


def test_flops_choose_where_there_is_neither(tables: Tables) -> None:
    untimed = tables["scores"].assign(time_to_train_s=np.nan)
    best = score_machines(untimed).set_index("benchmark").loc["cosmoflow_tiny"]
    assert best["rate_flop_per_s"] == at_benchmark(tables, "cosmoflow_tiny")["rate_flop_per_s"].max()
    chosen = best_results.BEST(word="highest", measure="FLOPS", n=2)
    assert best["chosen_because"] == chosen + best_results.NO_FIRST(measure="time to train")
    bare = score_machines(untimed.assign(rate_flop_per_s=np.nan)).set_index("benchmark").loc["cosmoflow_tiny"]
    rates = at_benchmark(tables, "cosmoflow_tiny")["train_rate_samples_per_s"]
    assert bare["train_rate_samples_per_s"] == rates.max()
    assert bare["chosen_because"].startswith("highest throughput of 2")


@pytest.mark.parametrize(
    "other",
    [
        {"quality_target": 0.9},
        {"workload": "another"},
        {"quality_metric": "top5_accuracy"},
        {"timing": ""},
        {"division": "open"},
    ],
)
def test_only_like_results_are_rivals(trials: Tables, other: dict[str, Any]) -> None:
    """This also holds where two tables were joined without a new index."""
    one = trials["scores"].iloc[[0]]
    both = pd.concat([one, one.assign(**other, origin="other", vflops_flop_per_s=1e15)])
    assert len(score_machines(both)) == 2
    same = score_machines(pd.concat([one, one.assign(origin="other", vflops_flop_per_s=1e15)]))
    assert same["origin"].tolist() == ["other"]


def test_division_is_that_of_the_submission_and_of_one_suite_alone(tables: Tables) -> None:
    assert set(zip(tables["scores"]["suite"], tables["scores"]["division"], strict=True)) == {
        ("mlperf_hpc", "closed"),
        ("hpc_ai500", ""),
    }
    record = next(record for record in make_two_suites() if record.plan.benchmark.suite == "mlperf_hpc")
    submission = record.plan.submission.model_copy(update={"division": "open"})
    open_one = record.model_copy(update={"plan": record.plan.model_copy(update={"submission": submission})})
    name = record.plan.benchmark.name
    assert name_divisions([open_one]) == {name: "open"}
    assert name_divisions([open_one, record]) == {name: "closed, open"}


@pytest.mark.parametrize("staged", [True, False])
def test_timing_says_what_the_clock_counts(trials: Tables, staged: bool) -> None:
    runs = trials["runs"].assign(time_staging=staged)
    scores = score_scales(trials["run_scores"], runs, trials["scales"], DATASETS)
    assert set(scores["timing"]) == {TIMINGS[staged]}
    assert not scores["reason"].str.contains("timing").any()
    runs.loc[runs.index[0], "time_staging"] = not staged
    mixed = score_scales(trials["run_scores"], runs, trials["scales"], DATASETS).set_index("scale")
    assert mixed["timing"].to_dict() == {"n1x1": "", "n1x2": TIMINGS[staged]}
    assert result_scores.MIXED_TIMING() in mixed.loc["n1x1", "reason"]


def test_a_rate_above_the_peak_has_no_ratio_and_says_why(tmp_path: Path) -> None:
    made = make_scores(tmp_path, make_trials(3))
    rate = made["scores"].iloc[0]["rate_flop_per_s"]
    arguments = made["run_scores"], made["runs"], made["scales"], DATASETS

    def score_with(peak_flop_per_s: float) -> pd.Series:
        peaks = {"fp32": {"rate_flop_per_s": f"{peak_flop_per_s!r} FLOP/s", "source": "sheet"}}
        return score_scales(*arguments, make_machine(device={"kind": "cpu", "peaks": peaks})).iloc[0]

    above = score_with(float(rate) / 35.6)
    assert np.isnan(above["peak_ratio"])
    assert above["peak_flop_per_s"] == pytest.approx(rate / 35.6)
    found = result_scores.ABOVE_PEAK.find_in(above["reason"])
    assert (found["ratio"], found["precision"]) == ("35.6", "fp32")
    at_noise = score_with(float(rate) / (1 + TOLERANCE_RATIO / 2))
    assert at_noise["peak_ratio"] == pytest.approx(1 + TOLERANCE_RATIO / 2)
    assert "peak" not in at_noise["reason"]


def test_a_scale_whose_runs_all_broke_down_is_no_result_of_its_own(tmp_path: Path) -> None:
    """Runs that broke down early name no metric."""
    benchmark = make_trials(1)[0].plan.benchmark
    scores = make_scores(tmp_path, [*make_trials(3), make_record("failed", ranks_per_node=2, benchmark=benchmark)])
    assert set(scores["scores"]["quality_metric"]) == {"top_1_accuracy"}
    assert len(score_machines(scores["scores"])) == 1


def at_benchmark(tables: Tables, name: str) -> pd.DataFrame:
    return tables["scores"][tables["scores"]["benchmark"] == name]


def test_different_exponents_are_never_compared(trials: Tables) -> None:
    mixed = trials["scores"].assign(exponent=[5.0, 10.0])
    five, ten = (result_scores.OWNERS(n=n, names="images_tiny of default") for n in (5, 10))
    with pytest.raises(ValueError, match=re.escape(f"{five} and {ten}")):
        refuse_mixed_exponents(mixed)
    with pytest.raises(ValueError, match="different exponents"):
        score_machines(mixed)
    refuse_mixed_exponents(trials["scores"])
    refuse_mixed_exponents(trials["scores"].assign(exponent=[5.0, np.nan]))


def test_no_runs_make_empty_tables_of_the_same_columns(tables: Tables) -> None:
    nothing = score_trials(tables["runs"][:0], tables["work"], tables["power"])
    scores = score_scales(nothing, tables["runs"][:0], tables["scales"][:0], {})
    assert tuple(nothing.columns) == TRIAL_COLUMNS
    assert tuple(scores.columns) == SCORE_COLUMNS
    assert tuple(score_machines(scores).columns) == MACHINE_COLUMNS


def test_columns_have_one_type_each(tables: Tables, tmp_path: Path) -> None:
    for name in ("run_scores", "scores"):
        write_table(tables[name], tmp_path / "table.csv", tmp_path / "table.parquet")
        back = pd.read_parquet(tmp_path / "table.parquet")
        pd.testing.assert_frame_equal(back, tables[name])
        for column in back:
            expected = {"text": "object", "count": "int64", "number": "float64"}[kind_of(name, column)]
            assert str(back[column].dtype) == expected, column


def test_a_row_may_lack_anything() -> None:
    frame = score_frame([{"method": "declared", "nodes": None}, {"nodes": 4}], SCORE_COLUMNS)
    assert list(frame["method"]) == ["declared", ""]
    assert frame["nodes"].tolist()[1] == 4.0
    assert np.isnan(frame["nodes"].iloc[0])
