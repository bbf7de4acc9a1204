"""The screen shows running work and overall progress in any terminal, and prints lines without one."""

import json
import time

import pytest
from rich.console import Console
from unit.campaign.journals import HALF, RUN, end, plan, start_run, write
from unit.campaign.result_folders import open_attempt, run_folder

from hpcai.campaign import screen
from hpcai.campaign.journal import Journal
from hpcai.campaign.screen import PlainLines, Scene, draw


@pytest.fixture
def scene(tmp_path):
    journal = Journal(write(tmp_path / "journal.jsonl", *HALF))
    journal.read_on()
    return Scene(tmp_path, journal, tmp_path / "run.log", time.time() - 60, {})


def drawn(scene, columns=80, **options):
    console = Console(width=columns, height=30, force_terminal=True, record=True, **options)
    console.print(draw(scene))
    return console.export_text()


def test_stages_and_what_is_under_way(scene):
    text = drawn(scene)
    rows = {line.split()[0]: line for line in text.splitlines() if "━" in line}
    assert set(rows) == {"data", "measure", "report"}
    assert "1 of 3" in rows["measure"]
    assert "runs/deepcam_mini/fp32/n1x1/r2" in text


def test_epoch_and_quality_of_the_run_under_way(scene):
    folder = run_folder(scene.working / "results")
    attempt = open_attempt(folder)
    (attempt / "output.log").touch()
    (attempt / "epochs.jsonl").write_text('{"epoch": 2, "quality": 0.25}\n')
    run = str(folder.relative_to(scene.working / "results/runs"))
    write(scene.journal.path, end(3, 50), start_run(4, 50, run))
    scene.journal.read_on()
    text = drawn(scene)
    assert "epoch 2" in text
    assert "0.25" in text


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_every_terminal_is_wide_enough(scene, columns):
    write(scene.journal.path, end(3, 50, "job_error"))
    scene.journal.read_on()
    assert max(map(len, drawn(scene, columns).splitlines())) <= columns


def test_before_the_first_job_and_after_the_last(tmp_path):
    empty = Scene(tmp_path, Journal(tmp_path / "none.jsonl"), tmp_path / "run.log", time.time(), {})
    assert drawn(empty)


def test_many_jobs_are_not_all_shown(tmp_path):
    runs = [start_run(number, 0, f"deepcam_mini/fp32/n1x1/r{number}") for number in range(1, 40)]
    journal = Journal(write(tmp_path / "journal.jsonl", plan(), *runs))
    journal.read_on()
    scene = Scene(tmp_path, journal, tmp_path / "run.log", time.time(), {})
    assert len(drawn(scene).splitlines()) <= 30


def test_lines_are_said_once(scene, capsys):
    record = scene.working / f"results/runs/{RUN}/record.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"outcome": "not_converged"}))
    lines = PlainLines()
    lines.show(scene)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2  # the run, and the stage of the data
    assert "not converged" in said[0]
    lines.show(scene)
    assert capsys.readouterr().out == ""
    write(scene.journal.path, end(3, 50, "job_error"))
    scene.journal.read_on()
    lines.close(scene)
    assert "logs/train/3.log" in capsys.readouterr().out


def test_a_look_costs_few_file_reads(scene, monkeypatch):
    folder = run_folder(scene.working / "results")
    open_attempt(folder)
    run = str(folder.relative_to(scene.working / "results/runs"))
    write(scene.journal.path, start_run(4, 50, run))
    scene.journal.read_on()
    opened = []
    path = type(folder)
    for name in ("read_bytes", "read_text", "open"):
        real = getattr(path, name)
        monkeypatch.setattr(path, name, lambda *a, real=real, **k: opened.append(a[0]) or real(*a, **k))
    scene.journal.read_on()
    list(screen._under_way(scene))
    assert len({str(file) for file in opened}) <= 2, opened  # its plan and its epochs
