"""Imported results in the tables of own studies: scores equal the package's, and like is ranked with like."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from unit.mlperf_hpc.analysis.import_trees import (
    FIVE,
    deepcam_logs,
    run_time_s,
    strong_by_package,
    tables_of,
    weak_by_package,
    write_deepcam,
    write_power,
)
from unit.mlperf_hpc.log_factory import START_MS, log_events, log_text, start, stop, system_json, text_of, write_tree

from hpcai.metrics.scores.columns import REPEATED, SCORE_COLUMNS, TRIAL_COLUMNS
from hpcai.metrics.scores.ranking import rank_results
from hpcai.mlperf_hpc.analysis.result_quantities import NO_TIME, OTHER_RUNS
from hpcai.mlperf_hpc.analysis.results_folder import import_tables, read_rounds
from hpcai.mlperf_hpc.analysis.study_names import FIRST_ROUND_SAMPLES, TASKS
from hpcai.rules.table import rules_of

ROOT = Path(__file__).parents[4]
IN_2020_MS = 1_600_000_000_000


@pytest.mark.parametrize(
    ("missed", "times"),
    [((), sorted(FIVE)[1:-1]), ((3,), [140.0, 200.0, 300.0]), ((0,), [120.0, 140.0, 200.0]), ((0, 3), [])],
)
def test_time_to_train_is_the_olympic_mean_and_the_packages(
    missed: tuple[int, ...], times: list[float], tmp_path: Path
) -> None:
    place = write_deepcam(tmp_path, deepcam_logs(missed=missed))
    score = tables_of(tmp_path)["scores"].iloc[0]
    theirs, _ = strong_by_package(place)
    if not times:
        assert math.isnan(score["time_to_train_s"])
        assert theirs is None
        assert "2 of 5 runs do not comply" in score["reason"]
        return
    assert score["time_to_train_s"] == pytest.approx(sum(map(run_time_s, times)) / 3)
    assert score["time_to_train_s"] / 60 == pytest.approx(theirs, rel=1e-12)
    assert (score["n"], score["n_scored"], score["runs_by_rule"]) == (5, 3, 5)


def test_scaling_file_multiplies_the_score(tmp_path: Path) -> None:
    place = write_deepcam(tmp_path, deepcam_logs())
    (place / "scaling.json").write_text(json.dumps({"scaling_factor": 1.25}))
    score = tables_of(tmp_path)["scores"].iloc[0]
    assert score["time_to_train_s"] == pytest.approx(1.25 * run_time_s(sum(sorted(FIVE)[1:-1]) / 3))
    assert score["time_to_train_s"] / 60 == pytest.approx(strong_by_package(place)[0], rel=1e-12)
    assert "times 1.25 of scaling.json" in score["score_method"]


def test_energy_is_the_packages(tmp_path: Path) -> None:
    place = write_deepcam(tmp_path, deepcam_logs(missed=(3,)))
    (place / "scaling.json").write_text(json.dumps({"scaling_factor": 1.5}))
    write_power(place, [100.0, 200.0, 300.0, 400.0, 500.0])
    tables = tables_of(tmp_path)
    energy = tables["mlperf_energy"].iloc[0]
    kept = [(100.0, 300.0), (300.0, 140.0), (500.0, 200.0)]
    assert energy["energy_j"] == pytest.approx(1.5 * sum((w + 10) * run_time_s(epoch) for w, epoch in kept) / 3)
    assert energy["energy_j"] == pytest.approx(strong_by_package(place)[1], rel=1e-12)
    assert tables["run_scores"]["mean_power_w"].tolist() == pytest.approx([110, 210, 310, 410, 510])
    assert tables["scores"]["mean_power_w"].iloc[0] == pytest.approx(310)


def test_weak_score_is_the_packages(tmp_path: Path) -> None:
    logs = deepcam_logs([100.0, 90.0, 110.0, 95.0, 105.0, 500.0, 600.0], missed=(6,), number_of_nodes=1)
    place = write_tree(tmp_path, benchmark="deepcam", scaling="weak", logs=logs[:5] + logs[6:], pruned=logs[5:6])
    weak, theirs = tables_of(tmp_path)["mlperf_weak"].iloc[0], weak_by_package(place)
    assert weak["time_to_train_all_s"] == pytest.approx(run_time_s(110.0))
    assert weak["time_to_train_all_s"] / 60 == pytest.approx(theirs["time_to_train_all"], rel=1e-12)
    assert (weak["counted_instances"], weak["instances"]) == (theirs["number_of_models"], 7)
    assert weak["logged_instance_scale"] == theirs["instance_scale"] == 8
    # Seven instances at the same time on 32 accelerators cannot have had 8 each, whatever the package makes of it.
    assert math.isnan(weak["instance_scale"])
    assert weak["models_per_min"] == pytest.approx(5 / run_time_s(110.0) * 60)
    assert weak["whole_scale"] == 32
    assert "result_6.txt" in weak["reason"]


def test_rows_are_those_of_own_studies(tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs())
    tables = tables_of(tmp_path)
    assert tuple(tables["run_scores"].columns) == TRIAL_COLUMNS
    assert tuple(tables["scores"].columns) == SCORE_COLUMNS
    score = tables["scores"].iloc[0]
    assert score["result"] == "deepcam/ORG/machine/n4x8"
    assert (score["method"], score["origin"], score["machine"]) == ("declared", "v2.0", "ORG/machine")
    assert (score["nodes"], score["ranks"], score["timing"]) == (4, 32, "staging on the clock")
    assert score["dataset"] == "deepcam_all_hist (official)"
    assert score["valid_for"] == "closed division"
    trials = tables["run_scores"].set_index("repetition")["dropped"]
    assert trials.to_dict() == {1: "lowest", 2: "highest", 3: "", 4: "", 5: ""}


@pytest.mark.parametrize(
    ("samples", "dataset", "benchmark"),
    [
        (524288, "cosmoflow_v2 (official)", "cosmoflow"),
        (524288 - 100, "cosmoflow_v2 (official)", "cosmoflow"),
        (262144, "cosmoflow_v07 (official)", "cosmoflow_v07"),
        (1000, "cosmoflow_v2, 1,000 training samples (published)", "cosmoflow"),
    ],
)
def test_other_data_make_another_dataset(samples: int, dataset: str, benchmark: str, tmp_path: Path) -> None:
    """The second one leaves out the last incomplete batch of 512."""
    write_tree(tmp_path, logs=[log_text(train_samples=samples)])
    score = tables_of(tmp_path)["scores"].iloc[0]
    assert (score["dataset"], score["benchmark"]) == (dataset, benchmark)


def test_a_round_without_rules_is_ranked_by_its_target(tmp_path: Path) -> None:
    """The package has no rules for v0.7, so no verdict by other rules may remove its results."""
    logs = deepcam_logs(missed=(0,), number_of_nodes=None)
    write_tree(tmp_path, benchmark="deepcam", scaling=None, logs=logs)
    tables = tables_of(tmp_path, "v0.7")
    assert math.isnan(tables["mlperf_results"]["time_to_train_s"].iloc[0])
    score = tables["scores"].iloc[0]
    assert score["time_to_train_s"] == pytest.approx(run_time_s((120 + 140 + 200) / 3))
    assert score["valid_for"] == "not judged"
    assert "no rules for this round" in score["label"]


@pytest.mark.parametrize("times", [FIVE[:4], [*FIVE, 130.0]])
def test_a_round_without_rules_ranks_no_other_number_of_runs(times: list[float], tmp_path: Path) -> None:
    logs = deepcam_logs(times, number_of_nodes=None)
    write_tree(tmp_path, benchmark="deepcam", scaling=None, logs=logs)
    tables = tables_of(tmp_path, "v0.7")
    score = tables["scores"].iloc[0]
    assert tables["mlperf_results"]["run_by_target_s"].iloc[0] > 0
    assert math.isnan(score["time_to_train_s"])
    assert NO_TIME(why=OTHER_RUNS(runs=len(times), needed=5)) in score["reason"]
    assert (tables["runs"]["dropped"] == "").all()
    assert rank_results(tables["scores"])["place"].isna().all()


def test_staging_before_the_clock_makes_another_list(tmp_path: Path) -> None:
    events = deepcam_logs(staging_s=None)
    for name, rule_set in (("v2.0", "staging on the clock"), ("v3.0", "")):
        folder = tmp_path / name
        write_deepcam(folder, events)
        assert tables_of(folder, name)["scores"]["timing"].iloc[0] == rule_set


def test_runs_published_again_are_ranked_once(tmp_path: Path) -> None:
    """Imported together or one by one; without staging keys the rules of the later round do not tell the timing."""
    folders = [tmp_path / name for name in ("v2.0", "v3.0")]
    for folder, org in zip(folders, ("ORG", "Org"), strict=True):
        write_deepcam(folder, deepcam_logs(staging_s=None), org=org)
        write_deepcam(folder, deepcam_logs([50.0] * 5, staging_s=None), system=f"only_{folder.name}")
    together = import_tables([one for folder in folders for one in read_rounds([folder])])["scores"]
    apart = pd.concat([tables_of(folder, folder.name)["scores"] for folder in folders[::-1]])
    remarks = together.set_index(["origin", "machine"])["reason"]
    assert remarks["v3.0", "Org/machine"] == f"{REPEATED} v2.0 ORG/machine"
    assert remarks["v2.0", "ORG/machine"] == ""
    for scores in (together, apart):
        ranking = rank_results(scores).set_index("machine")
        assert ranking.loc["ORG/machine", "place"] == 2
        assert ranking.loc["Org/machine", "group"] == "not ranked"
        assert ranking.loc["Org/machine", "reason"] == f"not ranked: {REPEATED} v2.0 ORG/machine, ranked there"


def test_divisions_share_no_list(tmp_path: Path) -> None:
    for division in ("closed", "open"):
        description = system_json(division=division)
        logs = deepcam_logs(division=division)
        write_tree(tmp_path, benchmark="deepcam", system=division, logs=logs, description=description)
    scores = tables_of(tmp_path)["scores"]
    assert dict(zip(scores["machine"], scores["division"], strict=True)) == {"ORG/closed": "closed", "ORG/open": "open"}
    # The logs of both are the same to the millisecond, as in no real round.
    assert rank_results(scores)["place"].tolist() == [1, 1]


def test_deepcam_evaluated_by_steps_is_another_benchmark(tmp_path: Path) -> None:
    """The model differed in v0.7, whose runs are of 2020; a run that ends early stays with its submission."""
    for system, start_ms in (("steps", IN_2020_MS), ("later", START_MS + 1e9)):
        stepped = [_with_more_evaluations(epoch_s, start_ms) for epoch_s in FIVE]
        write_deepcam(tmp_path, [_without_end(stepped[0]), *stepped[1:]], system=system)
    plain = deepcam_logs()
    write_deepcam(tmp_path, [_without_end(plain[0]), *plain[1:]], system="epochs")
    tables = tables_of(tmp_path)
    scores = tables["scores"].set_index("machine")
    names = {"ORG/epochs": "deepcam", "ORG/later": "deepcam", "ORG/steps": "deepcam_v07"}
    assert scores["benchmark"].to_dict() == names
    assert scores.loc["ORG/steps", "dataset"] == "deepcam_all_hist (official), evaluated by steps"
    assert set(scores.loc[["ORG/epochs", "ORG/later"], "dataset"]) == {"deepcam_all_hist (official)"}
    assert tables["runs"].groupby("machine")["benchmark"].unique().map(list).to_dict() == {
        machine: [name] for machine, name in names.items()
    }
    assert rank_results(tables["scores"])["list"].nunique() == 2


def test_the_round_named_v07_evaluated_by_steps_whatever_its_dates(tmp_path: Path) -> None:
    write_deepcam(tmp_path, [_with_more_evaluations(epoch_s, START_MS) for epoch_s in FIVE])
    assert tables_of(tmp_path, "v0.7")["scores"]["benchmark"].tolist() == ["deepcam_v07"]


def _with_more_evaluations(epoch_s: float, start_ms: float) -> str:
    """Return a log with a second evaluation within each epoch."""
    events = []
    for event in log_events("deepcam", epoch_s=epoch_s, start_ms=start_ms):
        events.append(event)
        if event["key"] == "epoch_start":
            number, time_ms = event["metadata"]["epoch_num"], event["time_ms"]
            events.append(start(time_ms + 1, "eval_start", epoch_num=number))
            events.append(stop(time_ms + 2, "eval_stop", epoch_num=number))
    return text_of(events)


def _without_end(log: str) -> str:
    return "".join(line for line in log.splitlines(keepends=True) if '"run_stop"' not in line)


def test_ranking_gives_published_results_their_places(tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs(), system="slow")
    write_deepcam(tmp_path, deepcam_logs([time / 2 for time in FIVE]), system="fast")
    write_deepcam(tmp_path, deepcam_logs(missed=(0, 1)), system="none")
    ranking = rank_results(tables_of(tmp_path)["scores"]).set_index("machine")
    assert ranking.loc[["ORG/fast", "ORG/slow"], "place"].tolist() == [1, 2]
    assert ranking["place"].isna().to_dict()["ORG/none"]
    assert set(ranking["valid"]) == {"declared"}
    assert ranking.loc["ORG/none", "group"] == "not ranked"


def test_scale_of_an_unknown_machine_stays_empty(tmp_path: Path) -> None:
    write_tree(tmp_path, benchmark="deepcam", logs=deepcam_logs(), description=None)
    tables = tables_of(tmp_path)
    assert tables["runs"].empty
    assert len(tables["mlperf_runs"]) == 5
    assert tables["scores"]["scale"].iloc[0] == ""


def test_names_are_those_of_the_training_and_of_the_rules() -> None:
    """The training layer must not be imported from here, because it would import TensorFlow."""
    for task in TASKS.values():
        if task.workload == "openfold":
            continue
        assert task.workload in rules_of("mlperf_hpc").results.runs
        assert f"dataset: {task.dataset}\n" in (ROOT / f"config/benchmarks/{task.workload}.yaml").read_text()
        # The training takes its quality from the same facts; tests/unit/workloads/test_registry.py compares them.
        sources = (ROOT / "src/hpcai/workloads" / task.workload).rglob("*.py")
        assert any("quality_metric: ClassVar[str] = MLPERF.quality_metric" in source.read_text() for source in sources)
    datasets = (ROOT / "config/datasets.tsv").read_text()
    assert all(f"\n{name}\t" in datasets for name in FIRST_ROUND_SAMPLES.values())


def test_a_run_that_ends_early_says_so(tmp_path: Path) -> None:
    write_deepcam(tmp_path, [_without_end(deepcam_logs()[0]), *deepcam_logs()[1:]])
    tables = tables_of(tmp_path)
    run = tables["runs"].iloc[0]
    assert run["outcome"] == "failed"
    assert "no run_stop" in run["reason"]
    assert math.isnan(run["train_rate_samples_per_s"])
    assert run["started_utc"] > pd.Timestamp(START_MS, unit="ms").isoformat()
    assert "no score, failed" in tables["run_scores"]["reason"].iloc[0]
