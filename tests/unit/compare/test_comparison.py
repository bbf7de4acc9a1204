"""Changes between two made-up results: like is compared with like, and only measured values are reported."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.compare.study_folders import SOFTWARE, make_runs, move, write_study
from unit.record_factory import make_benchmark, make_image_benchmark, make_record

from hpcai.compare.changes import CATEGORIES, CHANGE_COLUMNS
from hpcai.compare.comparison import Comparison, compare_folders
from hpcai.compare.measures import MEASURES, choose_measures, direction_of
from hpcai.compare.points import POINT_COLUMNS
from hpcai.compare.scores import COMPARISON_COLUMNS, FINDINGS, NOT_OF_ONE_KIND
from hpcai.compare.tables import comparison_tables
from hpcai.compare.text import SAME_RUNS, SAME_STARTS, say_comparison
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.sealed import sealed_json
from hpcai.metrics.run_tables import write_table
from hpcai.metrics.statistics.detectable import detectable_ratio
from hpcai.metrics.statistics.significance import NOT_ON_SIDE
from hpcai.metrics.statistics.summaries import mean_interval
from hpcai.records.run import RunRecord

RATE = "train_rate_samples_per_s"


def compare(tmp_path: Path, base: list[RunRecord], new: list[RunRecord]) -> Comparison:
    return compare_folders(write_study(tmp_path / "base", base), write_study(tmp_path / "new", new))


def compare_scored(tmp_path: Path, runs: list[RunRecord], base: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare the same runs with different columns of their scores."""
    folders = [write_study(tmp_path / name, runs, scores=scores) for name, scores in (("base", base), ("new", new))]
    return compare_folders(*folders)


def score_of(comparison: Comparison, measure: str, scale: str = "n1x1") -> dict[str, Any]:
    scores = comparison.scores
    found = scores[(scores["measure"] == measure) & (scores["scale"] == scale)]
    assert len(found) == 1
    return {str(key): value for key, value in found.iloc[0].items()}


def change_of(comparison: Comparison, key: str) -> dict[str, Any]:
    found = comparison.changes[comparison.changes["key"] == key]
    assert len(found) == 1, comparison.changes
    return {str(name): value for name, value in found.iloc[0].items()}


def test_identical_results_differ_in_nothing(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(), make_runs())
    assert comparison.same_runs
    assert comparison.changes.empty
    assert set(comparison.scores["finding"]) == {"identical"}
    assert (comparison.scores["ratio"] == 1).all()
    assert set(comparison.points["status"]) == {"compared"}


def test_columns_are_those_that_are_promised(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(2), make_runs(3, (2, 4)))
    assert tuple(comparison.scores) == COMPARISON_COLUMNS
    assert tuple(comparison.changes) == CHANGE_COLUMNS
    assert tuple(comparison.points) == POINT_COLUMNS
    for name, table in {"s": comparison.scores, "c": comparison.changes, "p": comparison.points}.items():
        write_table(table, tmp_path / f"{name}.csv", tmp_path / f"{name}.parquet")
        assert not table["source"].eq("").any()
        read = pd.read_parquet(tmp_path / f"{name}.parquet")
        pd.testing.assert_frame_equal(read, table, check_dtype=False)


def test_a_slower_result_is_worse_in_time_and_rate(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(), make_runs(factor=1.2, day=3))
    row = score_of(comparison, RATE)
    assert row["finding"] == "worse"
    assert row["ratio"] == pytest.approx(1 / 1.2)
    assert row["low_ratio"] < row["ratio"] < row["high_ratio"] < 1
    assert (row["n_base"], row["n_new"]) == (5, 5)
    assert row["p_t"] <= row["p_corrected"] <= 0.05
    assert row["smallest_p"] == pytest.approx(2 / 252)
    assert score_of(comparison, "step_time_median_s")["finding"] == "worse"
    assert score_of(comparison, "epochs_to_target")["finding"] == "identical"
    assert not comparison.same_runs
    back = compare_folders(tmp_path / "new", tmp_path / "base")
    assert score_of(back, RATE)["finding"] == "better"


def test_power_is_that_after_the_correction_for_all_scores(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(3), make_runs(3, factor=1.2, day=3))
    tested = comparison.scores["p_corrected"].notna().sum()
    row = score_of(comparison, RATE)
    assert tested > 10
    assert row["detectable_ratio"] == pytest.approx(detectable_ratio(row["spread_ratio"], 3, 3, tested))
    assert row["detectable_ratio"] > 2 * detectable_ratio(row["spread_ratio"], 3, 3)
    assert row["p_corrected"] >= row["p_bounded"] >= row["p_t"]


def test_values_are_the_means_of_the_runs(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(3), make_runs(4, factor=1.1))
    runs = pd.read_parquet(tmp_path / "new" / "tables" / "runs.parquet")
    own = runs[runs["scale"] == "n1x1"]
    row = score_of(comparison, "time_to_train_s")
    assert row["new_value"] == pytest.approx(mean_interval(own["time_to_train_s"]).value)
    assert (row["n_base"], row["n_new"]) == (3, 4)


def test_the_most_important_comes_first(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(), make_runs(factor=1.2))
    places = [FINDINGS.index(finding) for finding in comparison.scores["finding"]]
    assert places == sorted(places)
    assert comparison.scores["finding"].iloc[0] == "worse"


def test_one_run_is_shown_but_not_tested(tmp_path: Path) -> None:
    row = score_of(compare(tmp_path, make_runs(1), make_runs(4, factor=1.5)), RATE)
    assert row["finding"] == "one run"
    assert math.isnan(row["p_corrected"])
    assert math.isnan(row["low_ratio"])
    assert row["beyond_range"]
    assert "no test is possible" in row["note"]


def test_points_of_one_side_are_listed(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(2, (1, 2)), make_runs(2, (2, 4)))
    status = dict(zip(comparison.points["scale"], comparison.points["status"], strict=True))
    assert status == {"n1x1": "only_base", "n1x2": "compared", "n1x4": "only_new"}
    alone = comparison.scores[comparison.scores["measure"] == ""]
    assert dict(zip(alone["scale"], alone["note"], strict=True)) == {
        "n1x1": "not in the new result",
        "n1x4": "not in the base",
    }
    assert set(comparison.scores.loc[comparison.scores["measure"] != "", "scale"]) == {"n1x2"}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"target": {"value": 0.35, "note": "easier"}}, "quality_target 0.3 against 0.35"),
        (
            {
                "data": {
                    "dataset": "other",
                    "source": "generate",
                    "train_samples": 256,
                    "validation_samples": 64,
                    "edge": 32,
                }
            },
            "data.dataset tiny against other",
        ),
    ],
)
def test_another_problem_is_not_compared(tmp_path: Path, changed: dict[str, Any], word: str) -> None:
    other = make_runs(2, (1,), benchmark=make_benchmark(**changed))
    comparison = compare(tmp_path, make_runs(2, (1,)), other)
    assert comparison.points["status"].tolist() == ["not_comparable"]
    assert word in comparison.points["reason"].iloc[0]
    assert comparison.scores["measure"].tolist() == [""]
    assert word in comparison.scores["note"].iloc[0]


def test_another_exponent_makes_another_vflops_and_nothing_else(tmp_path: Path) -> None:
    plan: dict[str, Any] = {"benchmark": make_image_benchmark(), "time_staging": False}
    rates = [1e12, 1.1e12]
    watts = {"vflops_flop_per_j": rates, "power_method": "declared"}
    base = {"exponent": 5.0, "vflops_flop_per_s": rates, "rate_flop_per_s": rates, **watts}
    runs = make_runs(2, (1,), **plan)
    comparison = compare_scored(tmp_path, runs, base, {**base, "exponent": 10.0})
    assert comparison.points["status"].tolist() == ["compared"]
    for measure in ("vflops_flop_per_s", "vflops_flop_per_j"):
        row = score_of(comparison, measure)
        assert row["finding"] == "not comparable"
        assert row["note"] == NOT_OF_ONE_KIND(differences="exponent 5 against 10")
        assert math.isnan(row["ratio"])
    for measure in (RATE, "time_to_train_s", "rate_flop_per_s"):
        assert score_of(comparison, measure)["finding"] == "identical"


def test_the_same_runs_with_other_values_are_not_the_very_same(tmp_path: Path) -> None:
    comparison = compare(tmp_path, make_runs(2, (1,)), make_runs(2, (1,), factor=1.2))
    assert (comparison.same_runs, comparison.same_starts) == (False, True)
    text = say_comparison(comparison)
    assert SAME_STARTS() in text
    assert SAME_RUNS() not in text


@pytest.mark.parametrize(("runs", "tested"), [(1, False), (3, True)])
def test_how_scores_are_tested_is_said_where_one_was(tmp_path: Path, runs: int, tested: bool) -> None:
    text = say_comparison(compare(tmp_path, make_runs(runs, (1,)), make_runs(runs, (1,), factor=1.2)))
    assert ("Welch" in text) is tested


@pytest.mark.parametrize(
    ("provenance", "codec", "keys"),
    [
        ({"pack_digest": "00" * 32}, None, []),
        ({"pack_digest": "00" * 32, "data_digest": "00" * 32}, None, ["data_digest", "pack_digest"]),
        ({"pack_digest": "00" * 32}, "gzip", ["pack_digest", "benchmark.pack.codec"]),
        ({"pack_digest": None}, None, ["pack_digest"]),
    ],
)
def test_equal_data_packed_again_are_no_change(
    tmp_path: Path, provenance: dict[str, Any], codec: str | None, keys: list[str]
) -> None:
    base = write_study(tmp_path / "base", move(make_runs(1, (1,)), pack_digest="ab" * 32))
    new = write_study(tmp_path / "new", move(make_runs(1, (1,)), **{"pack_digest": "ab" * 32} | provenance))
    if codec:
        file = next(new.glob("runs/**/record.json"))
        record = json.loads(file.read_text())
        record["plan"]["benchmark"]["pack"]["codec"] = codec
        file.write_text(json.dumps(record))
    assert compare_folders(base, new).changes["key"].tolist() == keys


@pytest.mark.parametrize(
    ("fact", "other", "note"),
    [
        ("flop_method", "declared", "flop_method compiled step against declared"),
        ("flop_per_sample", 23e9, "flop_per_sample "),
    ],
)
def test_scores_of_another_kind_are_not_compared(tmp_path: Path, fact: str, other: object, note: str) -> None:
    base = {"rate_flop_per_s": [1e12, 1.1e12], "flop_method": "compiled step", "flop_per_sample": 24.3e9}
    comparison = compare_scored(tmp_path, make_runs(2, (1,)), base, {**base, fact: other})
    row = score_of(comparison, "rate_flop_per_s")
    assert row["finding"] == "not comparable"
    assert note in row["note"]
    assert math.isnan(row["ratio"])
    assert score_of(comparison, RATE)["finding"] == "identical"


def test_one_power_measurement_is_not_counted_for_each_run(tmp_path: Path) -> None:
    scores = {"mean_power_w": 200.0, "power_method": "measured", "power_source": "results/power.csv"}
    comparison = compare_scored(tmp_path, make_runs(5, (1,)), scores, {**scores, "mean_power_w": 220.0})
    row = score_of(comparison, "mean_power_w")
    assert (row["n_base"], row["n_new"], row["finding"]) == (1, 1, "one run")
    assert row["ratio"] == pytest.approx(1.1)


def test_not_measured_is_no_number(tmp_path: Path) -> None:
    base = {"rate_flop_per_s": [1e12, 1.1e12]}
    comparison = compare_scored(tmp_path, make_runs(2, (1,)), base, {"rate_flop_per_s": [math.nan] * 2})
    row = score_of(comparison, "rate_flop_per_s")
    assert row["finding"] == "not measured"
    assert math.isnan(row["new_value"])
    assert row["note"] == NOT_ON_SIDE(side="new")
    assert "vflops_flop_per_s" not in set(comparison.scores["measure"])


def test_failed_runs_have_no_scores_but_are_counted(tmp_path: Path) -> None:
    new = [*make_runs(2, (1,)), make_record("failed", repetition=3), make_record("not_converged", repetition=4)]
    comparison = compare(tmp_path, make_runs(4, (1,)), new)
    point = comparison.points.iloc[0]
    assert (point["runs_new"], point["converged_new"], point["finished_new"]) == (4, 2, 3)
    assert score_of(comparison, "time_to_train_s")["n_new"] == 2
    assert score_of(comparison, RATE)["n_new"] == 3


def test_changes_are_named_with_their_category(tmp_path: Path) -> None:
    new = move(
        make_runs(2, time_staging=False),
        commit="f" * 40,
        software={**SOFTWARE, "tensorflow": "2.19.0"},
        machine_facts={"processor": "another", "cores": 4, "memory_bytes": 8_000_000_000, "accelerator": None},
        data_digest="00" * 32,
    )
    comparison = compare(tmp_path, make_runs(2), new)
    expected = {
        "time_staging": ("rules", "true", "false"),
        "data_digest": ("data", "ef" * 32, "00" * 32),
        "commit": ("code", "0123456789abcdef0123456789abcdef01234567", "f" * 40),
        "machine_facts.processor": ("machine", "test processor", "another"),
        "software.tensorflow": ("software", "2.18.1", "2.19.0"),
    }
    assert set(comparison.changes["key"]) == set(expected)
    for key, cells in expected.items():
        row = change_of(comparison, key)
        assert (row["category"], row["before"], row["after"]) == cells
        assert (row["where"], row["points"]) == ("", 2)
    order = [CATEGORIES.index(category) for category in comparison.changes["category"]]
    assert order == sorted(order)
    assert score_of(comparison, "time_to_train_s")["finding"] == "not comparable"
    assert score_of(comparison, RATE)["finding"] == "identical"


def test_changes_say_where_they_hold(tmp_path: Path) -> None:
    def study(batch: int) -> list[RunRecord]:
        point = {"settings_of_point": {"global_batch": batch}}
        return [*make_runs(1, (1,)), *make_runs(1, (2,), **point), *make_runs(1, benchmark="other", **point)]

    comparison = compare(tmp_path, study(16), study(32))
    row = change_of(comparison, "point.global_batch")
    assert (row["before"], row["after"], row["points"]) == ("16", "32", 3)
    assert row["where"] == "cosmoflow_tiny/fp32/n1x2, other"


def test_a_renamed_study_is_one_difference(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(2))
    new = write_study(tmp_path / "new", make_runs(2), name="renamed")
    comparison = compare_folders(base, new)
    assert comparison.changes["key"].tolist() == ["study.name"]
    assert (comparison.base.name, comparison.new.name) == ("default", "renamed")
    assert set(comparison.scores["finding"]) == {"identical"}


def test_settings_that_were_changed_after_they_were_written_are_refused(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(2))
    file, settings = base / "study.json", {"name": "default", "title": "A study", "seed": 1}
    file.write_bytes(sealed_json(settings))
    assert compare_folders(base, write_study(tmp_path / "new", make_runs(2))).changes.empty
    file.write_bytes(sealed_json(settings).replace(b'"seed": 1', b'"seed": 2'))
    with pytest.raises(RecordError, match=r"study\.json"):
        compare_folders(base, tmp_path / "new")


def test_an_older_folder_with_tables_alone_can_be_compared(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", move(make_runs(2), commit="a" * 40))
    new = write_study(tmp_path / "new", make_runs(2))
    (base / "study.json").unlink()
    (base / "tables" / "scales.parquet").unlink()
    for record in base.glob("runs/**/record.json"):
        record.unlink()
    comparison = compare_folders(base, new)
    assert comparison.changes["key"].tolist() == ["commit"]
    assert set(comparison.scores["finding"]) == {"identical"}


def test_a_record_of_another_version_can_be_compared(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(1, (1,)))
    new = write_study(tmp_path / "new", make_runs(1, (1,)))
    file = next(new.glob("runs/**/record.json"))
    record = json.loads(file.read_text())
    record["plan"]["point"]["new_setting"] = [1, 2]
    file.write_text(json.dumps(record))
    row = change_of(compare_folders(base, new), "point.new_setting")
    assert (row["before"], row["after"]) == ("not recorded", "[1, 2]")


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study" / "results", make_runs(1))
    with pytest.raises(RecordError, match=r"there is no such folder"):
        compare_folders(tmp_path / "nothing", study)
    with pytest.raises(RecordError, match=r"write .*results"):
        compare_folders(study.parent, study)
    with pytest.raises(ConfigError, match="--measure: found speed; allowed: time_to_train_s"):
        compare_folders(study, study, ["speed"])
    record = next(study.glob("runs/**/record.json"))
    record.write_text("{}")
    with pytest.raises(RecordError, match=r"record\.json: found no `plan`"):
        compare_folders(study, study)
    record.write_text("{")
    with pytest.raises(RecordError, match="cannot be read as JSON"):
        compare_folders(study, study)
    (study / "tables" / "runs.parquet").write_bytes(b"no table")
    with pytest.raises(RecordError, match="no Parquet table"):
        compare_folders(study, study)


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", make_runs(1))
    write_table(pd.DataFrame({"run_id": ["a"]}), tmp_path / "x.csv", study / "tables" / "runs.parquet")
    with pytest.raises(RecordError, match="without the columns study, suite"):
        compare_folders(study, study)


def test_data_from_another_place_are_the_same_data(tmp_path: Path) -> None:
    runs = make_runs(2, (1,))
    found = {
        source: write_study(tmp_path / source, [run.model_copy(update={"data_source": source}) for run in runs])
        for source in ("downloaded", "existing", "generated")
    }
    comparison = compare_folders(found["downloaded"], found["existing"])
    assert comparison.points["status"].tolist() == ["compared"]
    assert change_of(comparison, "data_source")["category"] == "data"
    generated = compare_folders(found["downloaded"], found["generated"])
    assert generated.points["reason"].tolist() == ["data official against generated"]


def test_tables_of_a_study_compare_with_its_last_earlier_result(tmp_path: Path) -> None:
    first, second, own = (
        write_study(tmp_path / str(day), make_runs(5, (1,), factor=factor, day=day), name=f"day{day}")
        for day, factor in ((1, 1.0), (2, 1.2), (3, 1.2))
    )
    tables = comparison_tables([first, second], own)
    assert list(tables) == ["comparison", "changes", "history"]
    assert set(tables["comparison"]["finding"]) == {"identical"}
    assert tables["changes"]["before"].tolist() == ["day2"]
    assert set(tables["history"]["study"]) == {"day1", "day2", "day3"}
    for name, table in comparison_tables([], own).items():
        assert table.empty
        assert list(table) == list(tables[name])


def test_an_empty_result_has_nothing_to_compare(tmp_path: Path) -> None:
    comparison = compare(tmp_path, [], [])
    assert comparison.points.empty
    assert comparison.scores.empty
    assert not comparison.same_runs


def test_direction_of_a_quality_is_read_off_the_runs(tmp_path: Path) -> None:
    quality = choose_measures(["last_quality"])[0]
    images = make_image_benchmark()
    for name, records, better in (
        ("error", make_runs(2), "lower"),
        ("accuracy", make_runs(2, benchmark=images, time_staging=False), "higher"),
        ("missed", [make_record("not_converged")], "lower"),
        ("failed", [make_record("failed")], ""),
    ):
        folder = write_study(tmp_path / name, records)
        runs = pd.read_parquet(folder / "tables" / "runs.parquet")
        assert direction_of(quality, runs) == better, name


@pytest.mark.parametrize(("metric", "better"), [("top1_accuracy", "higher"), ("mean_absolute_error", "lower")])
def test_a_run_that_fell_back_below_its_target_has_the_direction_of_its_metric(metric: str, better: str) -> None:
    """With a fixed number of epochs the last one decides, so the best quality may have been beyond the target."""
    ends = {"outcome": "not_converged", "best_quality": [0.770, 0.771], "quality_target": 0.763}
    runs = pd.DataFrame({**ends, "last_quality": 0.760, "quality_metric": metric})
    quality = choose_measures(["last_quality"])[0]
    assert direction_of(quality, runs) == better
    assert direction_of(quality, runs.assign(quality_metric=["", metric])) == better
    assert direction_of(quality, runs.assign(quality_metric="")) == ""
    assert direction_of(quality, runs.drop(columns="quality_metric")) == ""


def test_units_end_the_names() -> None:
    endings = ("_s", "_per_s", "_w", "_per_j", "_bytes", "quality", "epochs_to_target")
    assert all(measure.column.endswith(endings) for measure in MEASURES)
