"""The test against the reference convergence points: golden values, and equal to the package's own command."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlperf_logging.rcp_checker import rcp_checker
from unit.mlperf_hpc.compliance.authority import quiet
from unit.mlperf_hpc.log_factory import log_text

from hpcai.mlperf_hpc.compliance.convergence import Convergence, judge_convergence, read_convergence
from hpcai.mlperf_hpc.compliance.model import RULE_SETS
from hpcai.parsers.mllog import parse_mllog

FIRST_OF = {"cosmoflow": 10, "deepcam": 5, "oc20": 5}


def runs_of(epochs, batch=512, benchmark="cosmoflow"):
    return [Convergence(f"result_{n}.txt", one, one < 1e9, batch, benchmark) for n, one in enumerate(epochs)]


def ask(folder: Path, texts, rule_set):
    """Return the package's answer and the content it would write, for a separate folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, text in enumerate(texts, start=1):
        (folder / f"result_{number}.txt").write_text(text)
    with quiet():
        return rcp_checker.check_directory(
            str(folder), "hpc", rule_set, False, False, rcp_pass="pruned_rcps", set_scaling=False
        )


def read(texts):
    return [read_convergence(parse_mllog(text.encode(), ""), f"r{n}") for n, text in enumerate(texts)]


def test_golden_pass_with_scaling():
    """benchmarks.md 12.1: cosmoflow 512, epochs 5 x 23 + 5 x 22."""
    result = judge_convergence(runs_of([23] * 5 + [22] * 5), "3.0.0")
    assert result.passed
    assert result.reference == "found"
    assert result.scaling_factor == pytest.approx(1.014815, abs=5e-7)
    assert result.mean_epochs == 22.5
    assert result.reference_mean_epochs == pytest.approx(22.833, abs=5e-4)
    assert result.smallest_mean_epochs == pytest.approx(22.200, abs=5e-4)


def test_golden_fail():
    """benchmarks.md 12.1: ten runs of 22."""
    result = judge_convergence(runs_of([22] * 10), "3.0.0")
    assert not result.passed
    assert result.scaling_factor is None


def test_golden_interpolation():
    """benchmarks.md 10: the point of batch 64 is pruned, it is judged between 32 and 512 (mean 8.87)."""
    result = judge_convergence(runs_of([20] * 10, batch=64), "2.0.0")
    assert result.reference == "interpolated"
    assert result.reference_mean_epochs == pytest.approx(8.87, abs=5e-3)
    assert (result.passed, result.scaling_factor) == (True, 1.0)


@pytest.mark.parametrize(
    ("benchmark", "batch", "mean", "smallest"),
    [
        ("cosmoflow", 32, 7.871, 7.322),
        ("cosmoflow", 1024, 40.056, 38.463),
        ("deepcam", 128, 6.944, 6.309),
        ("deepcam", 2048, 22.625, 21.110),
        ("oc20", 256, 19.750, 18.200),
        ("oc20", 2048, 32.875, 31.628),
    ],
)
def test_golden_points(benchmark, batch, mean, smallest):
    """benchmarks.md 10."""
    result = judge_convergence(runs_of([100] * FIRST_OF[benchmark], batch, benchmark), "3.0.0")
    assert result.reference_mean_epochs == pytest.approx(mean, abs=5e-4)
    assert result.smallest_mean_epochs == pytest.approx(smallest, abs=5e-4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rule_set=st.sampled_from(RULE_SETS),
    benchmark=st.sampled_from(sorted(FIRST_OF)),
    batch=st.sampled_from([16, 32, 64, 128, 200, 512, 1024, 2048, 4096]),
    epochs=st.lists(st.integers(3, 45), min_size=3, max_size=11),
    failing=st.integers(0, 2),
)
def test_equals_the_package(rule_set, benchmark, batch, epochs, failing, tmp_path):
    texts = [
        log_text(
            benchmark,
            epochs=1,
            first_epoch=last,
            global_batch_size=batch,
            status="aborted" if number < failing else "success",
        )
        for number, last in enumerate(epochs)
    ]
    passed, message, factor = ask(tmp_path / "logs", texts, rule_set)
    result = judge_convergence(read(texts), rule_set)
    assert result.passed == passed
    if passed:
        assert result.scaling_factor == pytest.approx(factor, rel=1e-12)
    words = {"found": "RCP found", "interpolated": "RCP Interpolation", "missing": "Missing RCP"}
    if result.reference in words:
        assert message.startswith(words[result.reference])


STOPPING = {
    "other batches": [log_text(global_batch_size=64), log_text()],
    "other benchmarks": [log_text("deepcam"), log_text()],
    "no benchmark": [log_text().replace("submission_benchmark", "x")],
    "no status": [log_text(status=None)],
    "no epoch number": [log_text().replace("epoch_num", "number")],
    "no quality": [log_text(epochs=0)],
    "cut off": [log_text()[:-30]],
}


@pytest.mark.parametrize("kind", STOPPING)
def test_where_the_package_stops(kind, tmp_path):
    with pytest.raises(Exception):  # noqa: B017, PT011
        ask(tmp_path / "logs", STOPPING[kind], "3.0.0")
    result = judge_convergence(read(STOPPING[kind]), "3.0.0")
    assert (result.passed, result.stops) == (False, True)
    assert "stops" in result.message


def test_no_batch(tmp_path):
    texts = [log_text(global_batch_size=None)]
    assert ask(tmp_path / "logs", texts, "3.0.0")[:2] == (False, "Could not detect global_batch_size")
    result = judge_convergence(read(texts), "3.0.0")
    assert (result.passed, result.stops) == (False, False)
    assert "global_batch_size" in result.message


def test_bypass_passes_with_a_word_of_it():
    result = judge_convergence(runs_of([22] * 10), "3.0.0", bypass=True)
    assert (result.passed, result.bypassed) == (True, True)
    assert "committee" in result.message


def test_last_quality_before_the_stop_counts():
    """Later qualities change nothing; a second run_stop decides anew."""
    log = log_text(epochs=3) + log_text(epochs=1, first_epoch=9).split("run_start")[1].split("\n", 1)[1]
    assert read([log])[0].epochs == 9
    assert read([log_text(epochs=3, status="aborted")])[0].epochs == 1e9


def test_nothing_is_written(tmp_path):
    texts = [log_text(epochs=1, first_epoch=22 + number % 2) for number in range(10)]
    passed, _, factor = ask(tmp_path / "logs", texts, "3.0.0")
    assert passed
    assert factor > 1
    judge_convergence(read(texts), "3.0.0")
    assert not list(tmp_path.rglob("scaling.json"))
