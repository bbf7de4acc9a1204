"""Joining the files of ranks loses nothing, whatever is damaged, and readers accept both forms."""

from pathlib import Path

import pandas as pd
import pytest
from unit.record_factory import make_plan, make_rank

from hpcai.core.errors import RecordError
from hpcai.measure import rank_files
from hpcai.measure.rank_files import REPORTS, RESOURCES, gather_rank_files, read_rank_reports
from hpcai.records.files import write_json
from hpcai.training.journal import ResourceSampler

PLAN = make_plan(nodes=2, ranks_per_node=2)
HEADER = ",".join(ResourceSampler.COLUMNS)


def make_attempt(folder: Path, ranks: int = 4) -> Path:
    (folder / "ranks").mkdir(parents=True)
    for rank in range(ranks):
        write_json(make_rank(rank, PLAN), folder / "ranks" / f"rank{rank}.json")
        rows = [f"{100 + 0.5 * row:.3f},{1000 * rank + row},97.5,{row},4096" for row in range(3)]
        (folder / f"resources_rank{rank}.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return folder


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_files_of_ranks_become_one_of_each_kind_with_equal_content(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path / "a")
    singles = [pd.read_csv(attempt / f"resources_rank{rank}.csv").assign(rank=rank) for rank in range(4)]
    reports = read_rank_reports(attempt, 4)
    gather_rank_files(attempt)
    assert names(attempt) == {REPORTS, RESOURCES}
    assert read_rank_reports(attempt, 4) == reports
    joined = pd.read_parquet(attempt / RESOURCES)
    expected = pd.concat(singles, ignore_index=True)[["rank", *ResourceSampler.COLUMNS]]
    pd.testing.assert_frame_equal(joined, expected, check_dtype=False)


def test_number_of_files_does_not_depend_on_the_ranks(tmp_path: Path) -> None:
    few, many = make_attempt(tmp_path / "few", 1), make_attempt(tmp_path / "many", 64)
    for attempt in (few, many):
        gather_rank_files(attempt)
    assert names(few) == names(many)


def test_gathering_twice_changes_nothing(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path)
    gather_rank_files(attempt)
    before = {path.name: path.read_bytes() for path in attempt.iterdir()}
    gather_rank_files(attempt)
    assert {path.name: path.read_bytes() for path in attempt.iterdir()} == before


@pytest.mark.parametrize("text", ["", HEADER, f"{HEADER}\n1.0,5,9", f"{HEADER}\n1.0,5,9,x,1\n", "a,b\n1,2\n"])
def test_damaged_samples_stay_and_cost_no_other_rank(tmp_path: Path, text: str) -> None:
    attempt = make_attempt(tmp_path)
    (attempt / "resources_rank2.csv").write_text(text)
    gather_rank_files(attempt)
    assert (attempt / "resources_rank2.csv").read_text() == text
    assert names(attempt) == {REPORTS, RESOURCES, "resources_rank2.csv"}
    assert sorted(pd.read_parquet(attempt / RESOURCES)["rank"].unique()) == [0, 1, 3]


def test_storage_that_the_system_does_not_tell_stays_unknown(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, 1)
    (attempt / "resources_rank0.csv").write_text(f"{HEADER}\n1.000,5,9.0,,\n")
    gather_rank_files(attempt)
    joined = pd.read_parquet(attempt / RESOURCES)
    assert joined["read_bytes"].isna().all()
    assert joined["rss_bytes"].tolist() == [5]


def test_half_written_report_stays_and_is_named(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path)
    report = attempt / "ranks" / "rank3.json"
    report.write_bytes(report.read_bytes()[:-20])
    gather_rank_files(attempt)
    assert names(attempt) == {REPORTS, RESOURCES, "ranks", "ranks/rank3.json"}
    assert len(read_rank_reports(attempt, 3)) == 3
    with pytest.raises(RecordError, match=r"rank3\.json"):
        read_rank_reports(attempt, 4)


def test_report_that_comes_late_is_joined_by_the_next_call(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path)
    late = (attempt / "ranks" / "rank1.json").read_bytes()
    (attempt / "ranks" / "rank1.json").unlink()
    gather_rank_files(attempt)
    with pytest.raises(RecordError, match=r"rank1\.json: no such file"):
        read_rank_reports(attempt, 4)
    (attempt / "ranks").mkdir()
    (attempt / "ranks" / "rank1.json").write_bytes(late)
    assert [report.placement.rank for report in read_rank_reports(attempt, 4)] == [0, 1, 2, 3]
    gather_rank_files(attempt)
    assert names(attempt) == {REPORTS, RESOURCES}
    assert [report.placement.rank for report in read_rank_reports(attempt, 4)] == [0, 1, 2, 3]


def test_single_files_of_older_folders_are_read(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path)
    assert [report.placement.rank for report in read_rank_reports(attempt, 4)] == [0, 1, 2, 3]


def test_nothing_is_removed_if_the_joined_files_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make_attempt(tmp_path)
    before = names(attempt)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rank_files, "write_json", refuse)
    monkeypatch.setattr(rank_files, "sync", refuse)
    gather_rank_files(attempt)
    assert names(attempt) == before


def test_end_between_writing_and_removing_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = make_attempt(tmp_path)
    monkeypatch.setattr(rank_files, "_remove", lambda files: None)
    gather_rank_files(attempt)
    assert {"ranks/rank0.json", "resources_rank0.csv", REPORTS, RESOURCES} <= names(attempt)
    monkeypatch.undo()
    gather_rank_files(attempt)
    assert names(attempt) == {REPORTS, RESOURCES}


def test_attempt_without_ranks_gets_no_files(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    gather_rank_files(tmp_path)
    assert names(tmp_path) == set()
