"""Several rounds together: every source has the same tables, and they are analysed as one."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
from unit.mlperf_hpc.log_factory import log_text, write_tree

from hpcai.metrics.run_tables import write_tables
from hpcai.metrics.scores.columns import REPEATED
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, join_files, source_tables
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound, read_checked_round

START_MS = 1_600_000_000_000


def make_round(folder: Path, *, epoch_s: float) -> CheckedRound:
    logs = [
        log_text("deepcam", seed=number, start_ms=START_MS + number * 10**7, epoch_s=epoch_s) for number in range(1, 6)
    ]
    write_tree(folder, org="ORG", system=f"machine_{folder.name}", logs=logs)
    return read_checked_round(folder, name=folder.name)


def test_no_round_gives_columns_without_rows() -> None:
    tables = analyse_tables(source_tables([]))
    assert all(table.empty for table in tables.values())
    assert all(len(table.columns) for table in tables.values())


def test_rounds_are_joined_and_analysed_as_one(tmp_path: Path) -> None:
    files = []
    for name, tables in {
        "v1.0": source_tables([make_round(tmp_path / "v1.0", epoch_s=100.0)]),
        "v2.0": source_tables([make_round(tmp_path / "v2.0", epoch_s=50.0)]),
        "none": source_tables([]),
    }.items():
        write_tables(tables, tmp_path / name / "tables")
        files += [tmp_path / name / "tables" / f"{table}.parquet" for table in tables]
    joined = join_files(files)
    assert set(joined) == set(source_tables([]))
    assert len(joined["mlperf_runs"]) == 10
    assert list(joined["mlperf_runs"].columns) == list(source_tables([])["mlperf_runs"].columns)
    results = analyse_tables(joined)["mlperf_results"].set_index("origin")
    assert list(results.index) == ["v1.0", "v2.0"]
    assert results.loc["v1.0", "epoch_s"] > results.loc["v2.0", "epoch_s"]
    assert results["kept"].tolist() == [3, 3]


def test_own_runs_have_no_folder_of_power_logs(tmp_path: Path) -> None:
    checked = make_round(tmp_path / "v1.0", epoch_s=100.0)
    own = [replace(one, method="measured") for one in checked.round.submissions]
    # The source of a study is the word "runs", wherever the study was measured.
    made = replace(checked, round=replace(checked.round, source="runs", submissions=tuple(own)))
    assert source_tables([made])["mlperf_runs"]["method"].eq("measured").all()


def test_weak_results_published_again_are_marked_in_the_joined_tables(tmp_path: Path) -> None:
    tables = []
    for name in ("v1.0", "v2.0"):
        logs = [log_text("deepcam", seed=number, number_of_nodes=1) for number in range(1, 6)]
        write_tree(tmp_path / name, benchmark="deepcam", scaling="weak", logs=logs)
        tables.append(source_tables([read_checked_round(tmp_path / name, name=name)]))
    joined = {name: pd.concat([one[name] for one in tables], ignore_index=True) for name in tables[0]}
    weak = analyse_tables(joined)["mlperf_weak"].set_index("origin")
    assert weak.loc["v2.0", "reason"].startswith(f"{REPEATED} v1.0 ORG/machine")
    assert REPEATED not in weak.loc["v1.0", "reason"]
    assert weak["same_runs_as"].to_dict() == {"v1.0": "", "v2.0": "v1.0 ORG/machine"}
