"""The files for other harnesses: what they read is in a record and its export; the harnesses themselves run them."""

import ast
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.record_factory import make_image_benchmark, make_record

from hpcai.records.files import write_record
from hpcai.report.openmetrics import runs_as_openmetrics

FOLDER = Path(__file__).parents[2] / "integrations"
REFRAME, JUBE = FOLDER / "reframe/hpcai_study.py", FOLDER / "jube/hpcai.xml"
RAMBLE = FOLDER / "ramble/hpcai/application.py"
NUMBER = r"([0-9.e+-]+)"


@pytest.fixture
def results(tmp_path):
    """Return a folder of two finished runs of one point, beside an earlier attempt and a run that was set aside."""
    for repetition in (1, 2):
        record = make_record(repetition=repetition)
        folder = tmp_path / "made/results/runs" / record.run_id
        aside = folder.parent / f"discarded/r{repetition}-20260101T000000Z"
        for place in (folder, folder / "raw", folder / "attempts/20260101T000000Z", aside):
            place.mkdir(parents=True)
            write_record(record, place / "record.json")
    return tmp_path / "made/results"


@pytest.fixture
def program(results, tmp_path):
    """Return a stand-in for `hpcai`: `run` copies finished runs, everything else is the real one."""
    stub = tmp_path / "bin/hpcai"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\nif [ "$1" = run ]; then echo "$*" > called.txt; exec cp -r {results} .; fi\n'
        f'exec {sys.executable} -m hpcai "$@"\n'
    )
    stub.chmod(0o755)
    return stub


def reframe_functions():
    """Return what the ReFrame test computes with, without ReFrame."""
    tree = ast.parse(REFRAME.read_text())
    wanted = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.Assign)]
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    own = [one for one in imports if "reframe" not in ast.unparse(one)]
    space: dict[str, object] = {}
    exec(compile(ast.Module([*own, *wanted], []), str(REFRAME), "exec"), space)
    return SimpleNamespace(**space)


def medians_of(records):
    """Return the medians of the ReFrame test."""
    return reframe_functions().medians(records)


def told(outcome, repetition, **plan):
    """Return a record as the ReFrame test reads it."""
    return make_record(outcome, repetition=repetition, **plan).model_dump(mode="json")


@pytest.mark.parametrize(("missed", "finite"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_run_that_missed_its_target_is_slower_than_all_others(missed, finite):
    outcomes = ["not_converged"] * missed + ["converged"] * (3 - missed)
    records = [told(outcome, number) for number, outcome in enumerate(outcomes, 1)]
    found = {name: value for _, name, _, value in medians_of(records)}
    assert math.isfinite(found["time_to_train"]) == finite
    if finite:
        reached = sorted(one["training"]["run_s"] for one in records if one["outcome"] == "converged")
        assert found["time_to_train"] == reached[1]  # of three, a missed one is the last
    assert reframe_functions().missed(records) == ([] if finite else ["cosmoflow_tiny/fp32/n1x1"])


def test_a_suite_of_fixed_epochs_counts_the_time_of_those_that_reached_the_target():
    plan = {"benchmark": make_image_benchmark(), "time_staging": False}
    records = [told(outcome, number, **plan) for number, outcome in enumerate(("converged", "not_converged"), 1)]
    found = {name: value for _, name, _, value in medians_of(records)}
    assert found["time_to_train"] == records[0]["training"]["run_s"]
    assert reframe_functions().missed(records) == []


def test_the_reframe_test_reads_what_a_record_has(results):
    records = [json.loads(path.read_text()) for path in sorted(results.parent.glob(reframe_functions().RECORDS))]
    assert [one["plan"]["repetition"] for one in records] == [1, 2]
    found = {name: (unit, value) for point, name, unit, value in medians_of(records)}
    first = make_record(repetition=1).training
    assert set(found) == {"time_to_train", "throughput", "staging"}
    assert found["staging"][1] == pytest.approx(first.staging.staging_s + 0.025)  # of two, between both
    assert medians_of([{**records[0], "training": None}]) == []


@pytest.mark.parametrize("name", ["time_to_train", "throughput", "staging", "wall"])
def test_the_patterns_of_jube_and_ramble_find_their_numbers(results, name):
    text = runs_as_openmetrics([results])
    patterns = {one.get("name"): one.text for one in ElementTree.parse(JUBE).iter("pattern")}
    pattern = patterns[name].replace("$jube_pat_fp", NUMBER)
    assert len(re.findall(pattern.replace("$point", "cosmoflow_tiny/fp32/n1x1"), text)) == 2
    for other in ("cosmoflow_tiny/fp32/n1x16", "cosmoflow_tiny/fp32/n1x", "cosmoflow_tiny/fp32"):
        assert not re.findall(pattern.replace("$point", other), text)
    tree = ast.parse(RAMBLE.read_text())
    values = {one.targets[0].id: ast.literal_eval(one.value) for one in tree.body if isinstance(one, ast.Assign)}
    family, _ = values["MEASURES"][name.replace("_", " ")]
    found = [
        match.groupdict() for match in re.finditer(rf"hpcai_run_{family}{values['LABELS']} {values['NUMBER']}", text)
    ]
    assert [one["repetition"] for one in found] == ["1", "2"]
    assert all(float(one["value"]) > 0 for one in found)


def test_the_table_of_jube_has_a_row_for_each_point():
    table = ElementTree.parse(JUBE)
    (analysed,) = table.iter("analyse")
    (step,) = [one for one in table.iter("step") if one.get("name") == analysed.get("step")]
    used = {one.text for one in step.iter("use")}
    (points,) = [one for one in table.iter("parameterset") if one.get("name") in used]
    (point,) = points.iter("parameter")
    assert all(f"${point.get('name')}/" in one.text for one in table.iter("pattern"))
    # The points are no parameters of the step that measures: it would measure the study once for each.
    (measure,) = [one for one in table.iter("step") if one.get("name") == step.get("depend")]
    assert not used & {one.text for one in measure.iter("use")}


@pytest.mark.slow
def test_reframe_runs_it(program, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    subprocess.run([tmp_path / "env/bin/pip", "install", "-q", "ReFrame-HPC==4.10.4"], check=True)
    options = ["-c", str(REFRAME), "-r", "--performance-report", "--prefix", str(tmp_path / "out")]
    settings = [f"hpcai={program}", "snakefile=/somewhere/Snakefile", "study=/somewhere/study.yaml"]
    sets = [word for one in settings for word in ("-S", f"HpcAiStudy.{one}")]
    called = [tmp_path / "env/bin/reframe", *options, "--keep-stage-files", *sets]
    done = subprocess.run(called, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "time_to_train" in done.stdout
    (words,) = (tmp_path / "out").rglob("called.txt")
    assert words.read_text().split()[:4] == ["run", "measure", "--snakefile", "/somewhere/Snakefile"]
    for repetition in (1, 2):
        record = make_record("not_converged", repetition=repetition)
        write_record(record, tmp_path / "made/results/runs" / record.run_id / "record.json")
    done = subprocess.run(called, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert "missed the target" in done.stdout
    shutil.rmtree(tmp_path / "made/results/runs")
    done = subprocess.run(called, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert "no record of a run" in done.stdout


@pytest.mark.slow
def test_jube_runs_it(program, tmp_path):
    jube = shutil.which("jube") or os.environ.get("HPCAI_JUBE")
    if jube is None:
        pytest.skip("jube is not on the PATH (Debian's package jube; HPCAI_JUBE names one elsewhere)")
    more = [make_record(repetition=repetition, ranks_per_node=2) for repetition in (1, 2)]
    more.append(make_record("not_converged", repetition=3, ranks_per_node=2))
    for record in more:
        folder = tmp_path / "made/results/runs" / record.run_id
        folder.mkdir(parents=True)
        write_record(record, folder / "record.json")
    text = JUBE.read_text().replace(">hpcai<", f">{program}<").replace(">Snakefile<", ">/somewhere/Snakefile<")
    text = text.replace("fp32/n1x2<", "fp32/n1x2,cosmoflow_tiny/fp32/n8x1<")  # one without runs
    (tmp_path / "hpcai.xml").write_text(text)
    for words in (["run", "hpcai.xml"], ["result", "hpcai_jube"]):
        done = subprocess.run([jube, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("study,", "config/study.yaml,"))]
    rows = {row["point"]: row for row in csv.DictReader(lines)}
    counts = {point: (row["wall_cnt"], row["time_to_train_cnt"]) for point, row in rows.items()}
    one, two, none = (f"cosmoflow_tiny/fp32/{scale}" for scale in ("n1x1", "n1x2", "n8x1"))
    assert counts == {one: ("2", "2"), two: ("3", "2"), none: ("", "")}
    for point, ranks in ((one, 1), (two, 2)):
        made = [make_record(repetition=number, ranks_per_node=ranks).training.run_s for number in (1, 2)]
        assert float(rows[point]["time_to_train_avg[s]"]) == pytest.approx(sum(made) / 2, rel=0.01)
    assert len({path.resolve() for path in tmp_path.rglob("called.txt")}) == 1  # measured once, for both points


WORKSPACE = """\
ramble:
  variables: {mpi_command: '', batch_submit: '{execute_experiment}', processes_per_node: 1}
  applications:
    hpcai:
      workloads:
        study:
          experiments:
            default:
              variables: {n_ranks: 1, n_nodes: 1, snakefile: /somewhere/Snakefile, study: /somewhere/study.yaml}
  software: {packages: {}, environments: {}}
"""


@pytest.mark.slow
def test_ramble_runs_it(program, tmp_path):
    ramble = shutil.which("ramble") or os.environ.get("HPCAI_RAMBLE")
    if ramble is None:
        pytest.skip("ramble is not on the PATH (it is not on PyPI; HPCAI_RAMBLE names bin/ramble of a checkout)")
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def call(*words):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    repository, workspace = tmp_path / "repository", tmp_path / "workspace"
    call(ramble, "repo", "create", repository, "site")
    shutil.copytree(RAMBLE.parent, repository / "applications/hpcai")
    call(ramble, "repo", "add", repository)
    call(ramble, "workspace", "create", "-d", workspace)
    (workspace / "configs/ramble.yaml").write_text(WORKSPACE)
    call(ramble, "-D", workspace, "workspace", "setup", "--dry-run")
    experiment = workspace / "experiments/hpcai/study/default"
    call("bash", experiment / "execute_experiment")
    assert (experiment / "called.txt").read_text().split()[:4] == [
        "run",
        "measure",
        "--snakefile",
        "/somewhere/Snakefile",
    ]
    call(ramble, "-D", workspace, "workspace", "analyze")
    text = (workspace / "results.latest.txt").read_text()
    assert "Status = SUCCESS" in text
    _, *contexts = text.split("context figures of merit")
    assert len(contexts) == 2
    assert all(f"{name} = " in one for one in contexts for name in ("time to train", "throughput", "staging", "wall"))
