"""Measuring processes of blocks: their requests, the results of one that dies, and refused input."""

import sys

import pytest
from unit.training.training_plans import make_plan

from hpcai.core.errors import ConfigError
from hpcai.machine.blocks import times
from hpcai.machine.blocks.times import NOT_TIMED, ask_all, ask_reference, main, measure_blocks
from hpcai.machine.kernels.reference_steps import BATCHES
from hpcai.predict.steps.report import BlocksReport, StepTimes
from hpcai.records.files import read_part

STUB = """
import os, sys, time
from hpcai.machine.blocks.process import READY
from hpcai.predict.steps.report import BlockTime, SampleTimes, StepTimes
words = sys.argv
block = BlockTime(name="a", kind="dense", count=2, operations=3, work_flop=1, moved_bytes=1, time_s=1.0)
print("noise of a library")
note = os.environ["NOTE"]
with open(note, "a") as file: file.write("compiled\\n")
print(READY, flush=True)
sys.stdin.readline()
with open(note, "a") as file: file.write("times\\n")
if "--samples" in words:
    for _ in range(int(words[words.index("--samples") + 1])):
        print(SampleTimes(blocks=(block,), anchors_s=(0.1,)).model_dump_json())
for place, word in enumerate(words):
    if word != "--batch":
        continue
    if words[place + 1] == "32":
        raise SystemExit("no memory")
    print(StepTimes(network="small_cnn", origin="reference network", batch=int(words[place + 1]), software="s",
                    step_s=2.5, update_s=0.5, rounds=5, blocks=(block,)).model_dump_json(), flush=True)
"""
PYTHON = [sys.executable, "-c", STUB]


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """Keep these tests from waiting for a concurrent measurement."""
    monkeypatch.setenv("HPCAI_LOCK_FOLDER", str(tmp_path))
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))


def test_a_network_that_dies_leaves_a_reason_and_its_other_batches_their_times():
    report = measure_blocks([ask_reference("small_cnn")], PYTHON)
    found = {step.batch: step for step in report.steps}
    assert tuple(found) == BATCHES["small_cnn"]
    assert found[8].step_s == found[16].step_s == 2.5
    assert found[32].step_s is None
    assert NOT_TIMED.find_in(found[32].reason)["ending"] == "ended with 1"
    assert "no memory" in found[32].reason
    assert report.software == "s"
    assert (report.samples, report.samples_wall_s) == ((), None)
    assert BlocksReport.model_validate_json(report.model_dump_json()) == report


def test_networks_compile_together_before_any_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(times.os, "sched_getaffinity", lambda _pid: {0, 1})
    measure_blocks([ask_reference("resnet50")] * 3, PYTHON)
    assert (tmp_path / "note").read_text().split() == ["compiled"] * 2 + ["times"] * 2 + ["compiled", "times"]


def test_blocks_of_random_sizes_are_timed_on_request():
    report = measure_blocks([ask_reference("resnet50")], PYTHON, samples=3)
    assert [len(part.blocks) for part in report.samples] == [1] * 3
    assert report.samples_reason == ""
    assert report.samples_wall_s > 0
    dead = measure_blocks([ask_reference("resnet50")], [sys.executable, "-c", "raise SystemExit('lost')"], samples=3)
    assert NOT_TIMED.find_in(dead.samples_reason)["words"] == "lost"
    assert dead.steps[0].step_s is None


def test_a_process_that_takes_too_long_is_ended():
    process = times.Measuring([sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.2)
    process.wait_until_ready()
    assert process.finish().status is None
    process.stop()


def test_plans_of_one_benchmark_make_one_process_with_each_batch_once(tmp_path):
    write_plans(tmp_path, {"one": 8, "two": 4, "again": 8})
    files = [tmp_path / name for name in ("one", "two", "again")]
    (asked,) = ask_all(files, [tmp_path / "manifest.json"] * 3, [])
    assert asked.batches == (8, 4)
    assert [word for word in asked.options if word in map(str, files)] == [str(files[0]), str(files[1])]


def write_plans(folder, batches):
    for name, batch in batches.items():
        (folder / name).write_text(make_plan(point={"global_batch": batch}).model_dump_json())


def test_the_command_writes_its_report_and_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure_blocks, "__defaults__", (PYTHON, 1.0, 0))
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
