"""DeepCAM for real: two ranks reach the official value on generated weather, and MLPerf's checker reads their log.

Its rules for the closed division hard-code the two sample counts of the official data, so that no run on other data
can pass them. All else must pass.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from end_to_end.test_ranks import Cubes, Run
from unit.training.training_plans import MACHINE

from hpcai.config.deepcam import DeepCamBenchmark
from hpcai.config.runs import RunPlan
from hpcai.data.deepcam.module import DeepCamDataModule
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import pack_dataset
from hpcai.data.prepare import prepare_dataset

TINY = Path(__file__).resolve().parents[2] / "config" / "benchmarks" / "deepcam_tiny.yaml"
RULE_SETS = ("1.0.0", "2.0.0", "3.0.0")
OFFICIAL = {"train_samples": 121_266, "eval_samples": 15_158}


def plan_of(benchmark: DeepCamBenchmark) -> RunPlan:
    return RunPlan(
        study="test",
        benchmark=benchmark,
        machine=MACHINE,
        point={"benchmark": benchmark.name, "variant": "test", "nodes": 1, "ranks_per_node": 2},
        repetition=1,
        seed=20_260_712,
        rule_set="hpc_3.0.0",
        time_staging=True,
        limits={},
        submission={},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("deepcam")
    benchmark = DeepCamBenchmark.model_validate(yaml.safe_load(TINY.read_text()))
    module, data = DeepCamDataModule(benchmark.data), folder / "data"
    prepare_dataset("deepcam", module, data, folder / "datasets.tsv")
    manifest = data / "manifest.json"
    pack_dataset(read_manifest(manifest), module, data, benchmark.pack, data / "packed")
    return Cubes(manifest, data / "packed" / "packed.json", folder).run("run", plan_of(benchmark))


def check(log: Path, rule_set: str) -> subprocess.CompletedProcess:
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", rule_set]
    command = [*checker, "--log_output", str(log.with_suffix(f".{rule_set}")), str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_two_ranks_reach_the_target(run: Run) -> None:
    report = run.report
    assert report.outcome == "converged", run.output
    assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
    assert report.epochs[0].quality < 0.6 < 0.82 <= report.epochs[-1].quality
    # Fifteen frames on two ranks: shards of eight and seven.
    assert {epoch.evaluation_samples for epoch in report.epochs} == {15}


@pytest.mark.parametrize("rule_set", RULE_SETS)
def test_the_checker_refuses_the_two_sample_counts_and_nothing_else(run: Run, rule_set: str) -> None:
    checked = check(run.raw / "mllog.txt", rule_set)
    output = checked.stdout + checked.stderr
    assert checked.returncode == 1
    assert re.findall(r"CHECK for '(\w+)' failed", output) == list(OFFICIAL)
    assert re.findall(r"failed test: +v\['value'\] == (\d+)", output) == [str(count) for count in OFFICIAL.values()]


@pytest.mark.parametrize("rule_set", RULE_SETS)
def test_with_the_official_counts_the_checker_would_accept_it(run: Run, rule_set: str, tmp_path: Path) -> None:
    """That nothing but the counts is missing; only here does a log ever say what is not so."""
    text = (run.raw / "mllog.txt").read_text()
    for key, count in OFFICIAL.items():
        text, replaced = re.subn(rf'("key": "{key}", "value": )\d+', rf"\g<1>{count}", text)
        assert replaced == 1
    (tmp_path / "mllog.txt").write_text(text)
    checked = check(tmp_path / "mllog.txt", rule_set)
    assert checked.returncode == 0, checked.stdout + checked.stderr
