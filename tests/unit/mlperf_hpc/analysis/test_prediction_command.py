"""``hpcai mlperf predict``: its output, its files, and its messages about wrong input."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer import TyperException
from unit.mlperf_hpc.log_factory import log_text, system_json, write_tree

from hpcai.cli.main import call as call_hpcai
from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.analysis.prediction import FEWEST_POINTS, TOO_FEW_POINTS, UNITS_OUTSIDE

SCALES = {"machine_64": 8, "machine_128": 16, "machine_256": 32}
"""Nodes of each system, with 8 accelerators each."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("round")
    write_systems(folder, SCALES)
    return folder


def write_systems(folder: Path, systems: dict[str, int], *, runs: int = 10, **settings: Any) -> None:
    for system, nodes in systems.items():
        units = 8 * nodes
        logs = [
            log_text(
                global_batch_size=units, epochs=8 + number % 3 + nodes // 8, epoch_s=6400.0 / units, seed=number,
                number_of_nodes=nodes, **settings,
            )
            for number in range(runs)
        ]  # fmt: skip
        description = system_json(number_of_nodes=str(nodes), accelerator_model_name="NVIDIA A100-SXM4-80GB")
        write_tree(folder, system=system, logs=logs, description=description)


def call(*words: object) -> int:
    return call_hpcai(["mlperf", "predict", *map(str, words)])


def test_one_configuration(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prediction.json"
    options = ("--benchmark", "cosmoflow", "--system", "ORG/machine_64")
    assert call(tree, *options, "--units", 512, "--json", file) == 0
    said = capsys.readouterr().out
    assert "cosmoflow (524288 samples) on ORG A100, 512 units, global batch 512" in said
    assert UNITS_OUTSIDE(least=64, most=256) in said
    assert "leave-one-out: 3 of 3 submissions" in said
    content = json.loads(file.read_text())
    (row,) = content["predictions"]
    assert row["run_low_s"] < row["run_s"] < row["run_high_s"]
    assert row["epoch_s"] == pytest.approx(6400 / 512, rel=0.2)
    assert len(content["leave_one_out"]) == 3
    assert content["prediction_errors"]["predicted"] == 3


def test_table_of_powers_of_two(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tree, "--benchmark", "cosmoflow", "--system", "ORG/machine_64") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:-1]] == ["32", "64", "128", "256", "512"]
    assert [line.rstrip().endswith("=") for line in lines[3:-1]] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--benchmark", "oc20", "--system", "ORG/machine_64"), "--benchmark: found 'oc20'.*: cosmoflow"),
        (
            ("--benchmark", "cosmoflow", "--system", "ORG/x"),
            "--system: found 'ORG/x'.*ORG/machine_128, ORG/machine_256",
        ),
        (("--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--batch", "64"), "--batch: found it without"),
        (
            ("--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--units", "256", "--batch", "64"),
            "cannot be predicted: 256 units share a batch of 64 samples",
        ),
    ],
)
def test_errors_name_what_is_available(tree: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(tree, *words)


def test_leave_one_out_says_that_references_are_left_out(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tree, "--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--units", 64) == 0
    said = capsys.readouterr().out
    assert "and 5 reference points of all machines" in said
    assert "from the others, without the 5 reference convergence points as well" in said


def test_no_log_is_checked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts take most of the reading time, and affect neither predictions nor the message about a wrong name."""
    monkeypatch.delattr("hpcai.mlperf_hpc.compliance.checked_round.check_log")
    assert call(tree, "--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--units", 64) == 0


def test_staging_that_is_not_logged_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_systems(tmp_path, SCALES, staging_s=None)
    file = tmp_path / "prediction.json"
    words = ("--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--units", 64, "--json", file)
    assert call(tmp_path, *words) == 0
    assert "staging in run    not logged: it is part of the extra time" in capsys.readouterr().out
    assert json.loads(file.read_text())["predictions"][0]["staging_s"] is None


def test_a_table_without_any_prediction_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_systems(tmp_path, {"machine_64": 8})
    with pytest.raises(ConfigError, match="ORG/machine_64: none of its 3 configurations can be predicted"):
        call(tmp_path, "--benchmark", "cosmoflow", "--system", "ORG/machine_64")
    assert capsys.readouterr().out.count(TOO_FEW_POINTS(points=1, needed=FEWEST_POINTS)) == 3


def test_a_benchmark_without_times_is_said(tmp_path: Path) -> None:
    write_systems(tmp_path, {"machine_64": 8}, runs=1)
    with pytest.raises(
        ConfigError, match=r"no submission of cosmoflow has all.*: ORG/machine_64 without run_s, epochs"
    ):
        call(tmp_path, "--benchmark", "cosmoflow", "--system", "ORG/machine_64")


def test_a_round_named_twice_is_an_error(tree: Path) -> None:
    with pytest.raises(ConfigError, match=r"found several sources of the name .*, expected each round once"):
        call(tree, tree, "--benchmark", "cosmoflow", "--system", "ORG/machine_64")


@pytest.mark.parametrize("word", ["0", "-3", "1.5", "many"])
def test_units_are_counts(tree: Path, word: str) -> None:
    with pytest.raises(TyperException, match="expected a whole number from 1 on"):
        call(tree, "--benchmark", "cosmoflow", "--system", "ORG/machine_64", f"--units={word}")
