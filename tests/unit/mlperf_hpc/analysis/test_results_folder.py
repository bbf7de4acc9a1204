"""Imported rounds as results folders: the files that `hpcai compare`, `regress` and `history` read are correct."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unit.mlperf_hpc.analysis.import_trees import FIVE, deepcam_logs, run_time_s, tables_of, write_deepcam
from unit.mlperf_hpc.log_factory import write_tree
from unit.refusals import refused

from hpcai.compare.comparison import compare_folders
from hpcai.compare.history import history_of
from hpcai.compare.study import NEEDED
from hpcai.config.reading import Problems
from hpcai.config.rounds import RESULTS, check_rounds
from hpcai.core.errors import ConfigError, ParseError
from hpcai.core.files import file_sha256
from hpcai.metrics.run_tables import collect_epochs, collect_runs, write_tables
from hpcai.mlperf_hpc.analysis.result_quantities import UNKNOWN_BENCHMARK
from hpcai.mlperf_hpc.analysis.results_folder import (
    A_STUDY,
    digest_source,
    import_facts,
    import_tables,
    read_rounds,
    write_import,
)
from hpcai.mlperf_hpc.rounds.reading import OF_AN_IMPORT

NAMES = {
    "runs", "epochs", "run_scores", "scores", "mlperf_runs", "mlperf_results", "mlperf_weak", "mlperf_energy",
    "mlperf_systems", "mlperf_verdicts", "mlperf_repairs",
}  # fmt: skip


def write_round(tree: Path, folder: Path, name: str, factor: float = 1.0) -> Path:
    """Write a results folder of a round whose epochs take a multiple of the usual length."""
    write_deepcam(tree, deepcam_logs([factor * time for time in FIVE]))
    write_import(read_rounds([tree], name=name), folder, write_tables)
    return folder


def test_tables_of_runs_have_the_columns_of_own_studies(tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs())
    tables = tables_of(tmp_path)
    assert set(tables) == NAMES
    assert list(tables["runs"].columns) == list(collect_runs([]).columns)
    assert list(tables["epochs"].columns) == list(collect_epochs([]).columns)
    assert set(NEEDED) <= set(tables["runs"].columns)


def test_runs_tell_what_their_logs_tell(tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs(missed=(2,)))
    runs = tables_of(tmp_path)["runs"]
    first, missed = runs.iloc[0], runs.iloc[2]
    assert first["run_id"] == "deepcam/ORG/machine/n4x8/r1"
    assert (first["outcome"], missed["outcome"]) == ("converged", "not_converged")
    assert first["time_to_train_s"] == run_time_s(FIVE[0])
    assert first["train_rate_samples_per_s"] == pytest.approx(4 * 121266 / (4 * (FIVE[0] - 10)))
    assert first["evaluation_rate_samples_per_s"] == pytest.approx(15158 / 10)
    assert first["staging_epoch_ratio"] == pytest.approx(30 / FIVE[0])
    assert (first["quality_metric"], first["rule_set"]) == ("intersection_over_union", "hpc_2.0.0")
    assert bool(first["time_staging"])
    assert np.isnan(missed["time_to_train_s"])
    assert missed["run_s"] == run_time_s(FIVE[2])
    assert "0.8 does not meet 0.82" in missed["reason"]
    assert (first["valid_for"], missed["valid_for"]) == ("closed division", "none")
    assert runs["wall_s"].isna().all()


@pytest.mark.parametrize("first", [0, 1])
def test_epochs_are_counted_from_one(first: int, tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs([100.0], first_epoch=first))
    epochs = tables_of(tmp_path)["epochs"]
    assert epochs["epoch"].tolist() == [1, 2, 3, 4]
    assert epochs["train_s"].tolist() == [90.0] * 4
    assert epochs["evaluation_s"].tolist() == [10.0] * 4
    assert epochs["train_rate_samples_per_s"].tolist() == pytest.approx([121266 / 90] * 4)
    assert epochs["quality"].is_monotonic_increasing
    assert epochs["quality"].iloc[-1] >= 0.82


def test_comparison_and_history_take_imported_rounds(tmp_path: Path) -> None:
    first = write_round(tmp_path / "a", tmp_path / "first", "v1.0")
    second = write_round(tmp_path / "b", tmp_path / "second", "v2.0", 1.0)
    slower = write_round(tmp_path / "c", tmp_path / "third", "v3.0", 3.0)
    same = compare_folders(first, second)
    assert set(same.points["status"]) == {"compared"}
    assert {"rule_set"} <= set(same.changes["key"])
    changed = compare_folders(first, slower).scores.set_index("measure")
    mean, longer = (sum(run_time_s(factor * time) for time in FIVE) / 5 for factor in (1, 3))
    assert changed.loc["time_to_train_s", "ratio"] == pytest.approx(longer / mean)
    history = history_of([slower, second, first])
    times = history[history["measure"] == "time_to_train_s"]
    assert sorted(times["value"]) == pytest.approx(sorted([mean, mean, longer]))


def test_the_folder_says_where_it_comes_from(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "tree", tmp_path / "out", "v2.0")
    facts = json.loads((folder / "study.json").read_text())
    assert facts["name"] == "v2.0"
    (imported,) = facts["imported"]
    assert imported["source"] == str(tmp_path / "tree")
    assert (imported["logs"], imported["rule_set"]) == (5, "2.0.0")
    assert "v2.0" in imported["rule_set_reason"]
    assert {file.name for file in (folder / "tables").iterdir()} == {
        f"{name}.{kind}" for name in NAMES for kind in ("csv", "parquet")
    }
    for name in NAMES:
        assert len(pd.read_parquet(folder / "tables" / f"{name}.parquet")) >= 0


def test_the_digest_changes_with_the_logs_alone(tmp_path: Path) -> None:
    place = write_deepcam(tmp_path, deepcam_logs())

    def digest() -> str:
        return digest_source(read_rounds([tmp_path], name="v2.0")[0].round)

    before = digest()
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    listed = "".join(f"{file_sha256(tmp_path / name)}  {name}\n" for name in names)
    assert before == hashlib.sha256(listed.encode()).hexdigest()
    (tmp_path / "notes.txt").write_text("nothing that is read")
    assert digest() == before
    with (place / "result_1.txt").open("a") as stream:
        stream.write("\n")
    assert digest() != before


def test_several_rounds_in_one_folder_stay_apart(tmp_path: Path) -> None:
    sources = [tmp_path / "v1.0", tmp_path / "v2.0"]
    for source in sources:
        write_deepcam(source, deepcam_logs())
    rounds = read_rounds(sources)
    assert import_facts(rounds)["name"] == "v1.0, v2.0"
    tables = write_import(rounds, tmp_path / "out", write_tables)
    assert tables["scores"]["origin"].tolist() == ["v1.0", "v2.0"]
    assert tables["scores"]["n"].tolist() == [5, 5]


def test_rounds_of_one_name_are_refused(tmp_path: Path) -> None:
    write_deepcam(tmp_path, deepcam_logs())
    with pytest.raises(ConfigError, match="several sources of the name"):
        read_rounds([tmp_path, tmp_path])
    with pytest.raises(ConfigError, match="one name is for one"):
        read_rounds([tmp_path, tmp_path], name="v2.0")


def test_the_folder_of_a_study_is_refused(tmp_path: Path) -> None:
    write_deepcam(tmp_path / "tree", deepcam_logs())
    (tmp_path / "results" / "runs").mkdir(parents=True)
    with refused(ConfigError, A_STUDY):
        write_import(read_rounds([tmp_path / "tree"]), tmp_path / "results", write_tables)


def test_what_an_import_wrote_is_told_from_a_round(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "tree", tmp_path / "v1.0", "v1.0")
    with refused(ParseError, OF_AN_IMPORT):
        read_rounds([folder])
    problems = Problems()
    check_rounds([str(folder)], "study", problems)
    assert RESULTS.find_in(problems.lines[0]) is not None


def test_damaged_logs_are_rows_and_stop_nothing(tmp_path: Path) -> None:
    good = deepcam_logs()
    lines = good[0].splitlines(keepends=True)
    endless = "".join(line for line in lines if '"run_stop"' not in line)
    without_epochs = "".join(line for line in lines if '"epoch_' not in line and '"eval_' not in line)
    place = write_deepcam(
        tmp_path / "tree", [good[0], endless, without_epochs, "no log", "", ":::MLLOG {", good[0] + good[0]]
    )
    (place / "result_8.txt").write_bytes(bytes(range(256)) * 40)
    (place / "result_01.txt").write_text(good[1])
    tables = write_import(read_rounds([tmp_path / "tree"], name="v2.0"), tmp_path / "out", write_tables)
    runs = tables["runs"]
    assert len(runs) == len(tables["mlperf_runs"]) == len(tables["run_scores"]) == 9
    assert runs["run_id"].is_unique
    assert set(runs["outcome"]) <= {"converged", "not_converged", "failed", "diverged"}
    assert (runs["outcome"] == "failed").sum() == 5
    assert np.isnan(tables["scores"]["time_to_train_s"].iloc[0])
    assert not compare_folders(tmp_path / "out", tmp_path / "out").points.empty


def test_a_benchmark_that_nobody_knows_keeps_its_name(tmp_path: Path) -> None:
    write_tree(tmp_path, benchmark="climate", logs=[log.replace("deepcam", "climate") for log in deepcam_logs()])
    score = tables_of(tmp_path)["scores"].iloc[0]
    assert (score["workload"], score["dataset"]) == ("climate", "climate (published)")
    assert UNKNOWN_BENCHMARK() in score["reason"]


def test_no_round_gives_tables_without_rows() -> None:
    tables = import_tables([])
    assert set(tables) == NAMES
    assert all(table.empty and len(table.columns) for table in tables.values())
