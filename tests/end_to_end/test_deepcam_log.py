"""DeepCAM for real: two ranks reach the official value on generated weather, and MLPerf's checker reads their log.

Its rules for the closed division hard-code the two sample counts of the official data, so that no run on other data
can pass them. All else must pass.
"""

import re
from pathlib import Path

import pytest
from end_to_end.rank_runs import Run, benchmark_file, check_log, prepared
from unit.training.training_plans import plan_of

RULE_SETS = ("1.0.0", "2.0.0", "3.0.0")
OFFICIAL = {"train_samples": 121_266, "eval_samples": 15_158}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plan = plan_of(benchmark_file("deepcam_tiny"), ranks=2)
    return prepared(plan, tmp_path_factory.mktemp("deepcam")).run("run", plan)


def test_two_ranks_reach_the_target(run: Run) -> None:
    report = run.report
    assert report.outcome == "converged", run.output
    assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
    assert report.epochs[0].quality < 0.6 < 0.82 <= report.epochs[-1].quality
    # Fifteen frames on two ranks: shards of eight and seven.
    assert {epoch.evaluation_samples for epoch in report.epochs} == {15}


@pytest.mark.parametrize("rule_set", RULE_SETS)
def test_the_checker_refuses_the_two_sample_counts_and_nothing_else(run: Run, rule_set: str) -> None:
    checked = check_log(run.raw / "mllog.txt", rule_set)
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
    checked = check_log(tmp_path / "mllog.txt", rule_set)
    assert checked.returncode == 0, checked.stdout + checked.stderr
