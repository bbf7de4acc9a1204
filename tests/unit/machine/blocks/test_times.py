"""Measuring processes of blocks: their requests, the results of one that dies, and refused input."""

import sys

import pytest

from hpcai.core.errors import ConfigError
from hpcai.machine.blocks.times import NOT_TIMED, ask_all, ask_reference, main, measure_blocks
from hpcai.machine.kernels.reference_steps import BATCHES
from hpcai.predict.steps.report import BlocksReport, StepTimes
from hpcai.records.run import read_part

STUB = """
import sys
from hpcai.predict.steps.report import BlockTime, StepTimes
asked = sys.argv[sys.argv.index("--batch") + 1]
if asked == "16":
    raise SystemExit("no memory")
print("noise of a library")
block = BlockTime(name="a", kind="dense", count=2, operations=3, work_flop=1, moved_bytes=1, cpu_time_s=1.0)
print(StepTimes(network="small_cnn", origin="reference network", batch=int(asked), software="s", step_s=2.5,
                update_s=0.5, rounds=5, blocks=(block,)).model_dump_json())
"""
PYTHON = [sys.executable, "-c", STUB]


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """Keep these tests from waiting for a concurrent measurement."""
    monkeypatch.setenv("HPCAI_LOCK_FOLDER", str(tmp_path))


def test_a_network_that_dies_leaves_a_reason_and_the_others_their_times():
    report = measure_blocks(ask_reference("small_cnn"), PYTHON)
    found = {step.batch: step for step in report.steps}
    assert tuple(found) == BATCHES["small_cnn"]
    assert found[8].step_s == found[32].step_s == 2.5
    assert found[16].step_s is None
    assert NOT_TIMED.find_in(found[16].reason)["ending"] == "ended with 1"
    assert "no memory" in found[16].reason
    assert report.software == "s"
    assert BlocksReport.model_validate_json(report.model_dump_json()) == report


def test_the_command_writes_its_report_and_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure_blocks, "__defaults__", (PYTHON, 1.0))
    output = tmp_path / "blocks.json"
    assert main(["--network", "small_cnn", "--output", str(output)]) == 0
    assert [type(step) for step in read_part(BlocksReport, output).steps] == [StepTimes] * 3
    printed = capsys.readouterr().out
    assert "2500.00" in printed
    assert "machine: " in printed


@pytest.mark.parametrize(
    ("plans", "manifests", "networks", "code"),
    [
        (["plan.json"], [], [], "blocks.uneven"),
        ([], [], ["alexnet"], "blocks.unknown_network"),
    ],
)
def test_bad_questions_are_refused(plans, manifests, networks, code):
    with pytest.raises(ConfigError) as refused:
        ask_all(plans, manifests, networks)
    assert refused.value.code == code


def test_nothing_asked_is_refused():
    with pytest.raises(ConfigError) as refused:
        measure_blocks(ask_all([], [], []))
    assert refused.value.code == "blocks.nothing_asked"
