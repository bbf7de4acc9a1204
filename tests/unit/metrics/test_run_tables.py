"""Tables of runs, epochs and scales from records of all outcomes, and their files."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from unit.record_factory import (
    make_image_benchmark,
    make_mixed_study,
    make_record,
    make_study,
    make_two_suites,
    write_records,
)

from hpcai.catalogue.tables import tables
from hpcai.core.errors import RecordError
from hpcai.metrics.run_tables import (
    RUN_TWICE,
    collect_epochs,
    collect_runs,
    collect_verdicts,
    compute_scaling,
    read_records,
    summarise_scales,
    summarise_study,
    write_table,
)
from hpcai.metrics.scores import validity
from hpcai.metrics.scores import verdicts as verdict_table
from hpcai.metrics.summary import ALL_VALID, CONVERGED, NO_RESULT_AT, TOO_FEW_AT

UNITS = re.compile(r"(^|_)(s|bytes|samples|ratio|bytes_per_s|samples_per_s)$")
WITHOUT_UNIT = {
    "nodes", "ranks_per_node", "ranks", "repetition", "seed", "runs_by_rule", "earlier_attempts", "quality_target",
    "parameters", "epochs", "epochs_to_target", "best_quality", "last_quality", "epoch", "steps", "learning_rate",
    "train_loss", "quality", "accumulation", "batchnorm_group", "spatial_parts", "gradient_groups",
    "evaluation_batch", "skipped_steps", "n_valid", "n", "n_found", "stalls",
    "page_faults_per_step",
}  # fmt: skip


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_records(make_mixed_study(), tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def runs(paths: list[Path]) -> pd.DataFrame:
    return collect_runs(paths)


@pytest.mark.parametrize(
    ("of_ranks", "expected"), [((20745.0, 3.0), 20745.0), ((None, 3.0), 3.0), ((None, None), math.nan)]
)
def test_page_faults_are_those_of_the_rank_that_has_most(
    tmp_path: Path, of_ranks: tuple[float | None, ...], expected: float
) -> None:
    record = make_study(ranks=(2,), repeats=1)[0]
    ranks = [
        rank.model_copy(update={"page_faults_per_step": each})
        for rank, each in zip(record.ranks, of_ranks, strict=True)
    ]
    runs = collect_runs(write_records([record.model_copy(update={"ranks": tuple(ranks)})], tmp_path))
    assert runs["page_faults_per_step"].to_list() == pytest.approx([expected], nan_ok=True)


def test_every_run_is_a_row_that_names_its_record(runs: pd.DataFrame, paths: list[Path]) -> None:
    assert sorted(runs["record_path"]) == sorted(map(str, paths))
    assert set(runs["outcome"]) == {"converged", "not_converged", "diverged", "failed", "timed_out"}
    broken = runs[runs["outcome"].isin(["failed", "timed_out"])]
    assert broken[["time_to_train_s", "train_rate_samples_per_s", "training_ratio", "rest_s"]].isna().all(axis=None)
    assert broken["reason"].str.len().gt(0).all()


def test_order_does_not_depend_on_the_order_of_the_paths(paths: list[Path], runs: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(collect_runs(reversed(paths)), runs)


def test_units_end_the_names(runs: pd.DataFrame, paths: list[Path]) -> None:
    for frame in (runs, collect_epochs(paths)):
        numbers = frame.select_dtypes("number").columns
        assert [name for name in numbers if not UNITS.search(name) and name not in WITHOUT_UNIT] == []


def test_shares_add_up(runs: pd.DataFrame) -> None:
    parts = ["launch", "import", "init", "staging", "training", "evaluation", "rest"]
    shares = runs.loc[runs["training_ratio"].notna(), [f"{part}_ratio" for part in parts]]
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * len(shares))
    times = runs.loc[shares.index, [f"{part}_s" for part in parts]]
    assert times.sum(axis=1).tolist() == pytest.approx(runs.loc[shares.index, "wall_s"].tolist())


def test_mean_shares_add_up_where_some_launches_were_not_timed(tmp_path: Path) -> None:
    records = make_study((1,), repeats=3)
    timed = summarise_scales(collect_runs(write_records(records, tmp_path / "timed"))).iloc[0]
    records[1] = records[1].model_copy(update={"launch_s": None})
    found = summarise_scales(collect_runs(write_records(records, tmp_path / "some"))).iloc[0]
    shares = [f"{part}_ratio" for part in ("import", "init", "staging", "training", "evaluation", "rest")]
    assert math.isnan(found["launch_ratio"])
    assert sum(found[shares]) == pytest.approx(1.0)
    assert found["rest_ratio"] == pytest.approx(timed["rest_ratio"] + timed["launch_ratio"])


def test_epochs_of_broken_runs_are_kept(paths: list[Path]) -> None:
    epochs = collect_epochs(paths)
    assert (epochs[epochs["outcome"] == "failed"]["epoch"] == [1, 2, 3]).all()
    assert math.isnan(epochs[epochs["outcome"] == "diverged"]["train_loss"].iloc[-1])


def test_damaged_records_are_all_named(paths: list[Path], tmp_path: Path) -> None:
    cut, alien = tmp_path / "cut.json", tmp_path / "alien.json"
    cut.write_bytes(paths[0].read_bytes()[:500])
    alien.write_text("{}")
    with pytest.raises(RecordError, match=r"(?s)3 of 4 run records.*cut\.json.*alien\.json.*gone\.json"):
        read_records([paths[0], cut, alien, tmp_path / "gone.json"])


def test_same_run_twice_is_refused(paths: list[Path]) -> None:
    with pytest.raises(RecordError, match="cosmoflow_tiny/fp32/n1x1/r1 in") as error:
        collect_runs([*paths, paths[0]])
    assert error.value.code == RUN_TWICE.code


def test_scales(runs: pd.DataFrame) -> None:
    one, two = summarise_scales(runs).to_dict("records")
    assert (one["n_ok"], one["n"], two["n_ok"], two["n"], two["rate_n"]) == (4, 4, 1, 5, 2)
    assert one["time_to_train_low_s"] < one["time_to_train_score_s"] < one["time_to_train_high_s"]
    assert (one["time_to_train_score_method"], one["statistic"], two["statistic"]) == (
        "median of 4",
        "median of 4",
        "median of 2",
    )
    few = validity.TOO_FEW(word="run", counted=4, by_rule=10)
    assert one["verdict"] == f"{validity.ALL_CONVERGED(n=4, word='run')}; {few}"
    lost = validity.NO_RESULT(reason=validity.TOO_MANY_FAILED(failed=4, n=5, word="run", allowed="one"))
    assert two["verdict"].startswith(lost)
    assert math.isnan(two["time_to_train_score_s"])
    assert two["time_to_train_score_note"].startswith(lost)
    assert one["label"].startswith(validity.NOT_VALID(suite="MLPerf HPC", reasons="generated data"))
    assert one["label"].endswith(few)
    assert lost.facts["reason"] in two["label"]
    assert (one["valid_for"], one["suite"], one["precision"], one["accumulation"]) == ("none", "mlperf_hpc", "fp32", 1)
    assert (one["train_rate_speedup_ratio"], one["baseline"], two["baseline"]) == (1, "n1x1", "n1x1")
    assert two["train_rate_ideal_samples_per_s"] == pytest.approx(2 * one["train_rate_samples_per_s"])


@pytest.fixture(scope="module")
def two_suites(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_records(make_two_suites(), tmp_path_factory.mktemp("two_suites"))


def test_scales_of_two_suites_stand_side_by_side(two_suites: list[Path]) -> None:
    scales = summarise_scales(collect_runs(two_suites)).set_index(["benchmark", "ranks"])
    images = scales.loc["images_tiny"]
    assert images["quality_metric"].tolist() == ["top_1_accuracy"] * 2
    assert images["label"].str.startswith(validity.NOT_VALID(suite="HPC AI500 V2.0", reasons="generated data")).all()
    # A trial that trained to its end counts, though it missed the target.
    assert images["n_counted"].tolist() == [4, 5]
    assert images["verdict"].tolist() == [
        f"{validity.TRIALS(finished=n, n=n, word='trial', converged=4)}; "
        f"{validity.TOO_FEW(word='trial', counted=n, by_rule=10)}"
        for n in (4, 5)
    ]
    assert images["time_to_train_score_s"].notna().all()


def test_summary_names_the_suite_of_each_benchmark(two_suites: list[Path]) -> None:
    runs = collect_runs(two_suites)
    summary = summarise_study(runs, summarise_scales(runs), read_records(two_suites))
    labels = {verdict["benchmark"]: verdict["label"] for verdict in summary["verdicts"]}
    assert labels["cosmoflow_tiny"].startswith(validity.NOT_VALID(suite="MLPerf HPC", reasons="generated data"))
    lost, few = NO_RESULT_AT(word="run", scales=1, of=2), TOO_FEW_AT(word="run", scales=2, of=2)
    assert labels["cosmoflow_tiny"].endswith(f"{lost}, {few}")
    assert labels["images_tiny"].startswith(validity.NOT_VALID(suite="HPC AI500 V2.0", reasons="generated data"))
    assert labels["images_tiny"].endswith(TOO_FEW_AT(word="trial", scales=2, of=2))
    mlperf = validity.NOT_VALID(suite="MLPerf HPC", reasons="cosmoflow_tiny")
    assert summary["notice"] == f"{mlperf}; {validity.NOT_VALID(suite='HPC AI500 V2.0', reasons='images_tiny')}"
    few = TOO_FEW_AT(word="run", scales=4, of=4)
    assert summary["verdict"].startswith(f"{CONVERGED(converged=13, n=18)}; {few}; {mlperf}")
    assert summary["rules"]["suites"] == ["HPC AI500 V2.0", "MLPerf HPC"]


def test_verdicts(two_suites: list[Path]) -> None:
    verdicts = collect_verdicts(two_suites)
    assert {column.key for column in tables()["verdicts"].shown[0].columns} <= set(verdicts.columns)
    assert verdicts["level"].unique().tolist() == [
        "closed division",
        "open division",
        "hardware level",
        "system level",
        "free level",
    ]
    assert (verdicts["n_valid"] == 0).all()
    generated = verdicts[verdicts["rule"] == "official_data"]
    assert generated["n_found"].tolist() == generated["n"].tolist() == [9, 9, 9, 9, 9]
    missed = verdicts[verdicts["rule"] == "target_reached"]
    assert any(finding.endswith("(failed)") for finding in missed["finding"])
    assert verdicts["section"].str.len().gt(0).all()
    assert collect_verdicts([]).empty


def test_a_level_at_which_nothing_deviates_has_its_row(tmp_path: Path) -> None:
    made = make_record()
    verdicts = tuple(verdict.model_copy(update={"valid": True, "deviations": ()}) for verdict in made.verdicts)
    records = [make_record(record={"verdicts": verdicts}), make_record(repetition=2)]
    frame = collect_verdicts(write_records(records[:1], tmp_path))
    assert frame["verdict"].tolist() == [verdict_table.NONE_DEVIATES()] * 2
    assert frame["finding"].tolist() == [verdict_table.NOTHING] * 2
    mixed = collect_verdicts(write_records(records, tmp_path))
    assert set(mixed["verdict"]) == {verdict_table.SOME_DEVIATE(deviating=1, n=2)}


def test_valid_runs_make_a_valid_result_when_they_are_enough(tmp_path: Path) -> None:
    verdicts = tuple(verdict.model_copy(update={"valid": True, "deviations": ()}) for verdict in make_record().verdicts)
    records = [make_record(repetition=number, record={"verdicts": verdicts}) for number in range(1, 11)]
    runs = collect_runs(write_records(records, tmp_path))
    scales = summarise_scales(runs)
    assert scales["valid_for"].tolist() == ["closed division, open division"]
    assert scales["label"].tolist() == [validity.VALID(suite="MLPerf HPC")]
    summary = summarise_study(runs, scales, records)
    assert summary["notice"] == ALL_VALID()
    few = summarise_scales(runs.iloc[:9])
    assert few["valid_for"].tolist() == ["none"]
    reason = validity.TOO_FEW(word="run", counted=9, by_rule=10)
    assert few["label"].tolist() == [validity.NOT_VALID(suite="MLPerf HPC", reasons=reason)]


def test_settings_of_a_variant_stand_in_both_tables(tmp_path: Path) -> None:
    point = {"precision": "bf16", "compression": "fp16", "accumulation": 2, "batchnorm_group": 2, "fusion_bytes": 1e6}
    records = [
        make_record(),
        make_record(variant="bf16", settings_of_point=point),
        make_record(benchmark=make_image_benchmark(), time_staging=False),
    ]
    runs = collect_runs(write_records(records, tmp_path))
    for frame in (runs, summarise_scales(runs)):
        row = frame.set_index("variant").loc["bf16"]
        assert {key: row[key] for key in point} == point
        assert math.isnan(row["cycle_time_s"])
        assert frame["fusion_bytes"].dtype == float


def test_what_ranks_send_for_shared_samples_stands_in_both_tables(tmp_path: Path) -> None:
    records = [make_record(), make_record(variant="parts", ranks_per_node=2, settings_of_point={"spatial_parts": 2})]
    runs = collect_runs(write_records(records, tmp_path))
    for frame in (runs, summarise_scales(runs)):
        rows = frame.set_index("variant")
        assert rows.loc["parts", "spatial_parts"] == 2
        assert rows.loc["parts", "part_bytes"] == records[1].plan.part_bytes > 0
        assert rows.drop(index="parts")["part_bytes"].tolist() == [0]


def test_scale_without_any_result() -> None:
    frame = collect_runs([])
    assert summarise_scales(frame).empty
    assert compute_scaling(frame).empty


def test_all_runs_failed(tmp_path: Path) -> None:
    frame = collect_runs(write_records([make_record("failed"), make_record("timed_out", repetition=2)], tmp_path))
    row = summarise_scales(frame).iloc[0]
    assert (row["n_ok"], row["n"], row["rate_n"]) == (0, 2, 0)
    assert row["verdict"].startswith(validity.NO_RESULT(reason=validity.NONE_CONVERGED(n=2, word="run")))
    assert math.isnan(row["training_ratio"])


def test_files_are_deterministic_and_round_trip(runs: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_table(runs.copy(), tmp_path / name / "runs.csv", tmp_path / name / "runs.parquet")
    for kind in ("csv", "parquet"):
        assert (tmp_path / f"first/runs.{kind}").read_bytes() == (tmp_path / f"second/runs.{kind}").read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "first/runs.parquet"), runs)
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == ["runs.csv", "runs.parquet"]


@pytest.mark.parametrize("study", [make_mixed_study, make_study, make_two_suites, list])
def test_summary_is_plain_json(study: object, tmp_path: Path) -> None:
    records = study()  # type: ignore[operator]
    frame = collect_runs(write_records(records, tmp_path))
    summary = summarise_study(frame, summarise_scales(frame), records, title="A study")
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["counts"]["runs"] == len(records) == len(summary["records"])
    assert sum(value for key, value in summary["counts"].items() if key != "runs") == len(records)


def test_summary_of_a_mixed_study(runs: pd.DataFrame, paths: list[Path]) -> None:
    summary = summarise_study(runs, summarise_scales(runs), read_records(paths))
    assert summary["study"]["title"] == "default"
    assert [failure["outcome"] for failure in summary["failures"]] == [
        "not_converged",
        "diverged",
        "failed",
        "timed_out",
    ]
    assert summary["verdict"].startswith(
        f"{CONVERGED(converged=5, n=9)}; {TOO_FEW_AT(word='run', scales=2, of=2)}; not a valid MLPerf"
    )
    assert [verdict["suite"] for verdict in summary["verdicts"]] == ["MLPerf HPC"]
    assert {"name": "processor", "value": "test processor"} in summary["machine"]["facts"]
    assert summary["dates"]["first_utc"] == "2026-01-02T03:01:00Z"


def test_the_place_stands_beside_the_rate_of_staging(tmp_path: Path) -> None:
    records = [make_record(ranks_per_node=ranks) for ranks in (1, 2)]
    staging = records[1].training.staging.model_copy(update={"place": "shared"})
    training = records[1].training.model_copy(update={"staging": staging})
    records[1] = records[1].model_copy(update={"training": training})
    failed = make_record("failed", ranks_per_node=2, repetition=2)
    runs = collect_runs(write_records([*records, failed], tmp_path))
    assert list(runs["staging_place"]) == ["node-local", "shared", ""]
    assert list(summarise_scales(runs)["staging_place"]) == ["node-local", "shared"]
