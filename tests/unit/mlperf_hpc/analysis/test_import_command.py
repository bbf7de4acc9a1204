"""The command ``hpcai mlperf import``: what it prints, writes and refuses."""

import re
from pathlib import Path

import pytest
from unit.mlperf_hpc.analysis.import_trees import deepcam_logs, write_deepcam
from unit.mlperf_hpc.log_factory import write_tree

from hpcai.cli.main import call
from hpcai.core.errors import HpcaiError
from hpcai.mlperf_hpc.analysis.result_quantities import NO_TIME
from hpcai.mlperf_hpc.analysis.weak_scores import TOO_FEW


def command(*words: object) -> int:
    """Run the command with these words."""
    return call(["mlperf", "import", *map(str, words)])


def test_summary_counts_and_names_what_has_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deepcam(tmp_path / "tree", deepcam_logs())
    write_deepcam(tmp_path / "tree", deepcam_logs(missed=(0, 1)), system="bad")
    write_tree(tmp_path / "tree", benchmark="deepcam", scaling="weak", logs=deepcam_logs()[:3])
    assert command(tmp_path / "tree", "--output", tmp_path / "out", "--name", "v2.0") == 0
    printed = capsys.readouterr().out
    assert "rules        2.0.0: the round is named v2.0" in printed
    assert "2 strong, 1 weak; 2 system files" in printed
    assert "logs         13, of which 11 comply" in printed
    assert "1 of 2 have a time to train, 0 of 1 a time to train all" in printed
    assert re.search(f"deepcam/ORG/bad/n4x8: {NO_TIME.pattern}", printed)
    assert f"ORG/machine deepcam, weak: {TOO_FEW(counted=3, needed=5)}" in printed
    assert (tmp_path / "out" / "tables" / "scores.parquet").is_file()


def test_runs_of_unknown_scale_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tree(tmp_path / "tree", benchmark="deepcam", logs=deepcam_logs(), description=None)
    assert command(tmp_path / "tree", "--output", tmp_path / "out") == 0
    assert "not in table runs: 5 logs" in capsys.readouterr().out


def test_rule_set_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deepcam(tmp_path / "tree", deepcam_logs())
    command(tmp_path / "tree", "--output", tmp_path / "out", "--rule-set", "3.0.0")
    assert "rules        3.0.0: it was asked for" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", "--output", "out"], "nothing: .*no such file|nothing: No such file"),
        (["tree", "--output", "out", "--rule-set", "9.0"], "found 9.0, expected one of 1.0.0"),
        (["tree", "--output", "tree/ORG/systems/machine.json"], "name a folder that can be written"),
    ],
)
def test_bad_input_is_one_clear_error(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deepcam(tmp_path / "tree", deepcam_logs())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HpcaiError, match=message):
        command(*words)
