"""A study with the engine tensorflow and the launcher spawn, from data to report; real ranks that die or hang in it."""

import re
import shutil
import signal

import pandas as pd
import pytest
from end_to_end.hit_ranks import AHEAD_S, hitting_a_rank, ranks_of
from workflow_project import ROOT, Project, edit_yaml

from hpcai.launchers.registry import launcher_of
from hpcai.profiles.timeline import NO_TIMELINE
from hpcai.records.files import read_record

pytestmark = pytest.mark.slow
LIMIT_S, STALL_S = 240, 30
ENDLESS = {"recipe__max_epochs": 10_000, "target__value": 1e-9}
PAUSE_S = 15.0
"""Longer than TensorFlow itself waits for a silent rank (10 s), shorter than the limit of the study."""
BENCHMARKS = {"well": {}, "killed": ENDLESS, "hangs": ENDLESS, "pauses": {**ENDLESS, "recipe__max_epochs": 40}}
COLUMNS = ("benchmark", "variant", "nodes", "ranks_per_node", "repeats", "engine")
ROWS = (
    "well fp32 1 1 1 horovod",
    "well fp32 1 2 1 tensorflow",
    "well tf 1 1 1 tensorflow",
    "well tf 1 2 1 tensorflow",
    "killed tf 1 2 1 tensorflow",
    "hangs tf 1 2 1 tensorflow",
    "pauses tf 1 2 1 tensorflow",
)
CAPTURES = [f"results/profiles/{profile}/well/tf/n1x2/r1/capture.json" for profile in ("timeline", "kernels")]
CHARACTERISED = ["results/characterise/work/well.json", "results/characterise/allreduce_n1x2_tensorflow.json"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    shutil.copytree(ROOT / "tests/config", folder / "config")
    for name, changes in BENCHMARKS.items():
        path = folder / f"config/benchmarks/{name}.yaml"
        shutil.copy(folder / "config/benchmarks/cosmoflow_mini.yaml", path)
        edit_yaml(path, name=name, **changes)
    lines = ["\t".join(COLUMNS), *("\t".join(row.split()) for row in ROWS)]
    (folder / "config/runs/tiny.tsv").write_text("\n".join(lines) + "\n")
    limits = {"run_s": LIMIT_S, "stall_s": STALL_S, "disturbance": {"repeats": 0}}
    edit_yaml(folder / "config/tiny.yaml", benchmarks=list(BENCHMARKS), limits=limits)
    project, runs = Project(folder, study=folder / "config/tiny.yaml"), folder / "results/runs"
    spawn = ("--default-resources", "launcher=spawn")
    with (
        hitting_a_rank(runs / "killed/tf/n1x2/r1", "epochs.jsonl") as killed,
        hitting_a_rank(runs / "hangs/tf/n1x2/r1", "epochs.jsonl", signal.SIGSTOP) as stopped,
        hitting_a_rank(runs / "pauses/tf/n1x2/r1", "epochs.jsonl", signal.SIGSTOP, PAUSE_S + AHEAD_S) as paused,
    ):
        done = project.snakemake("measure", *CAPTURES, *CHARACTERISED, *spawn)
    assert done.returncode == 0, done.stdout
    assert killed, "no rank was there to be killed"
    assert stopped, "no rank was there to be stopped"
    assert paused, "no rank was there to be stopped for a while"
    done = project.snakemake("report", *spawn, config=["measure=false"])
    assert done.returncode == 0, done.stdout
    return project


def record_of(study, run):
    return read_record(study.directory / f"results/runs/{run}/record.json")


def table(study, name):
    return pd.read_parquet(study.directory / f"results/tables/{name}.parquet")


def test_every_run_is_a_row_with_its_engine(study):
    runs = table(study, "runs").set_index("run_id")
    well = runs[runs["benchmark"] == "well"]
    assert set(well["outcome"]) == {"converged"}
    assert well["ranks_identical"].all()
    assert runs["engine"].to_dict() == {
        f"{benchmark}/{variant}/n{nodes}x{ranks}/r{number}": engine
        for benchmark, variant, nodes, ranks, repeats, engine in (row.split() for row in ROWS)
        for number in range(1, int(repeats) + 1)
    }
    for run in ("well/tf/n1x1/r1", "well/tf/n1x2/r1"):
        record = record_of(study, run)
        assert (record.plan.point.engine, launcher_of(record)) == ("tensorflow", "spawn")


def test_a_variant_that_changes_its_engine_makes_two_series(study):
    scaling = table(study, "scaling")
    bases = scaling[scaling["benchmark"] == "well"].groupby(["variant", "engine"])["baseline"].unique().str[0].to_dict()
    assert bases == {("fp32", "horovod"): "n1x1", ("fp32", "tensorflow"): "n1x2", ("tf", "tensorflow"): "n1x1"}


def test_a_killed_rank_is_named_and_ends_the_run(study):
    record = record_of(study, "killed/tf/n1x2/r1")
    assert record.outcome == "failed"
    assert re.search(r"rank [01]: killed by signal 9", record.reason)
    assert record.epochs
    assert record.wall_s < LIMIT_S


def test_a_hanging_rank_ends_the_run_in_a_bounded_time(study):
    record = record_of(study, "hangs/tf/n1x2/r1")
    assert record.outcome == "failed"
    assert f"{STALL_S} s without a sign of life" in record.reason
    assert record.wall_s < LIMIT_S


def test_a_run_outlasts_a_pause_of_a_rank(study):
    record = record_of(study, "pauses/tf/n1x2/r1")
    assert record.outcome == "not_converged"
    assert record.training.longest_gap_s >= PAUSE_S


def test_no_rank_is_left(study):
    for path in study.directory.glob("results/runs/*/*/*/r*/record.json"):
        assert not ranks_of(read_record(path).attempt)


def test_the_timeline_is_not_measured_and_says_why(study):
    captures = table(study, "captures").set_index("profile")
    assert captures.loc["timeline", "status"] == "not measured"
    assert captures.loc["timeline", "reason"] == NO_TIMELINE(engine="tensorflow")
    assert captures.loc["kernels", "status"] == "measured"
    assert set(captures["engine"]) == {"tensorflow"}


def test_the_share_of_the_exchange_is_that_of_tensorflows_profiler(study):
    kernels = table(study, "kernels").set_index("category")
    assert {"convolution", "allreduce"} <= set(kernels.index)
    assert 0 < kernels.loc["allreduce", "share_ratio"] < 1


def test_the_allreduce_is_that_of_the_engine(study):
    links = table(study, "links")
    assert (set(links["engine"]), set(links["what"])) == ({"tensorflow"}, {"call"})
    assert table(study, "scores")["rate_flop_per_s"].notna().any()


def test_the_report_names_the_engine(study):
    html = (study.directory / "results/report.html").read_text()
    assert "tf, tensorflow, n1x2" in html
    assert "fp32, tensorflow" in html
