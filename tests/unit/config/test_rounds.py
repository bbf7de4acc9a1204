"""Rounds that a study names: their names, and refused ones."""

from pathlib import Path

import pytest

from hpcai.config.reading import Problems
from hpcai.config.rounds import RESULTS, check_rounds, name_round
from hpcai.core.errors import ConfigError


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("../shared/data/mlperf_hpc_v0.7.tar.xz", "v0.7"),
        ("/data/hpc_results_v1.0/", "v1.0"),
        ("${HOME}/v2.0.zip", "v2.0"),
        ("mlperf_hpc_v0.7_subset", "v0.7_subset"),
        ("a/b/..", "a"),
        ("some.tar/results.tar.gz", "results"),
    ],
)
def test_round_is_named_after_its_folder_or_archive(source: str, name: str) -> None:
    assert name_round(source) == name


def test_folders_and_archives_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v1.0").mkdir()
    (tmp_path / "v0.7.tar.xz").touch()
    monkeypatch.setenv("ROUNDS", str(tmp_path))
    problems = Problems()
    check_rounds(["${ROUNDS}/v1.0", str(tmp_path / "v0.7.tar.xz")], "study", problems)
    problems.raise_if_any()


def test_what_cannot_be_imported_is_named(tmp_path: Path) -> None:
    for folder in ("v1.0", "other/v1.0", "x,y"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    problems = Problems()
    names = ["v1.0", "nowhere", "notes.txt", "other/v1.0", "x,y"]
    check_rounds([str(tmp_path / name) for name in names], "study", problems)
    with pytest.raises(ConfigError) as caught:
        problems.raise_if_any()
    message = str(caught.value)
    assert "4 errors" in message
    assert "rounds.0" not in message
    assert "rounds.1: found" in message
    assert f"{tmp_path / 'nowhere'} must be there" in message
    assert "rounds.3: found" in message
    assert "another name than 'v1.0'" in message
    assert "rounds.4: found" in message


@pytest.mark.parametrize("log", ["", "Org/results/system/cosmoflow/result_0.txt"])
def test_a_folder_of_results_is_no_round_unless_logs_are_beside_them(tmp_path: Path, log: str) -> None:
    (tmp_path / "v1.0/tables").mkdir(parents=True)
    (tmp_path / "v1.0/study.json").touch()
    if log:
        (tmp_path / "v1.0" / log).parent.mkdir(parents=True)
        (tmp_path / "v1.0" / log).touch()
    problems = Problems()
    check_rounds([str(tmp_path / "v1.0")], "study", problems)
    assert [RESULTS.find_in(line) is not None for line in problems.lines] == ([] if log else [True])
