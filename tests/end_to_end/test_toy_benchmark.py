"""A benchmark that was added from outside trains: data, ranks and report, with no change outside of its folder."""

import json
from pathlib import Path

from unit.workloads.toy_library import TOY, call_python, copy_library

TRAIN = """
import sys
from pathlib import Path
import yaml
from end_to_end.rank_runs import prepared
from unit.training.training_plans import plan_of
plan = plan_of(yaml.safe_load(Path(sys.argv[1]).read_text()))
run = prepared(plan, Path(sys.argv[2])).run("run", plan)
assert run.exit_status == 0, run.output
"""


def test_it_learns_its_sums(tmp_path: Path) -> None:
    call_python(copy_library(tmp_path), "-c", TRAIN, TOY / "toy.yaml", tmp_path)
    report = json.loads((tmp_path / "run/training.json").read_text())
    assert report["outcome"] == "converged"
    assert report["epochs"][0]["quality"] > 0.5 > 0.05 >= report["epochs"][-1]["quality"]
