"""A study with the engine jax and the launcher spawn: the three benchmarks that it trains, from data to report."""

import json
import shutil

import pandas as pd
import pytest
from end_to_end.studies import SpawningProject
from workflow_project import ROOT, edit_yaml

from hpcai.report.hpc_ai500.configuration import RINGS
from hpcai.report.hpc_ai500.model import read_document

pytestmark = pytest.mark.slow
BENCHMARKS = ("cosmoflow_mini", "resnet50_mini", "deepcam_mini")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The rows of config/runs/jax.tsv, at the smallest sizes."""
    folder = tmp_path_factory.mktemp("jax")
    shutil.copytree(ROOT / "tests/config", folder / "config")
    rows = (ROOT / "config/runs/jax.tsv").read_text().replace("_tiny", "_mini")
    (folder / "config/runs/tiny.tsv").write_text(rows)
    # XLA may compile DeepCAM for minutes where other tests have the processors.
    limits = {"run_s": 1800, "stall_s": 1200, "disturbance": {"repeats": 0}}
    edit_yaml(folder / "config/tiny.yaml", benchmarks=list(BENCHMARKS), engine="jax", limits=limits)
    project = SpawningProject(folder, study=folder / "config/tiny.yaml")
    counts = project.dry_run("report")
    assert counts["train"] == 8
    for targets in (("measure",), ("report",)):
        done = project.snakemake(*targets, config=["measure=false"] if targets == ("report",) else [])
        assert done.returncode == 0, done.stdout
    return project


def table(study, name):
    return pd.read_parquet(study.directory / f"results/tables/{name}.parquet")


def test_all_three_train_to_their_ends_with_equal_ranks(study):
    runs = table(study, "runs")
    assert set(runs["benchmark"]) == set(BENCHMARKS)
    assert set(runs["outcome"]) == {"converged"}
    assert runs["ranks_identical"].dropna().all()
    assert runs.set_index("variant")["engine"].to_dict() == {"fp32": "jax", "shared": "jax", "tensorflow": "tensorflow"}


def test_the_hardware_level_of_hpc_ai500_asks_for_tensorflow_and_the_system_level_does_not(study):
    document = read_document(study.directory / "results/hpc_ai500/resnet50_mini/report.json")
    said = {level.level: [line for line in level.findings if "not TensorFlow" in line] for level in document.levels}
    assert len(said.pop("hardware")) == 1
    assert not any(said.values())


def test_mlperf_names_no_framework(study):
    verdicts = json.loads((study.directory / "results/runs/deepcam_mini/fp32/n1x2/r1/record.json").read_text())
    assert "TensorFlow" not in json.dumps(verdicts["verdicts"])


def test_the_report_and_its_document_tell_the_engine_and_how_it_exchanges(study):
    document = read_document(study.directory / "results/hpc_ai500/resnet50_mini/report.json")
    items = {item.name: item for item in document.items}
    assert items["Engine"].value == "fp32: jax; tensorflow: tensorflow"
    assert items["Topology of the allreduce"].value == "; ".join(sorted([RINGS["jax"], RINGS["tensorflow"]]))
    assert "fp32, jax, n1x2" in (study.directory / "results/report.html").read_text()
