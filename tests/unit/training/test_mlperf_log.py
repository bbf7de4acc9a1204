"""Order and content of the MLPerf log."""

import json
import math
import time
from pathlib import Path

import pytest
from unit.training.training_plans import make_plan

from hpcai.training import chrono
from hpcai.training.journal import Journal
from hpcai.training.mlperf_log import MlperfLog
from hpcai.workloads.cosmoflow.training import CosmoFlow


def write_log(path: Path, *, cleared: bool = False, quality: float = 0.1) -> list[dict[str, object]]:
    plan = make_plan()
    log = MlperfLog(path, active=True)
    log.submission(plan, "cosmoflow", cleared)
    log.start("init_start")
    log.settings(plan, (16, 7), CosmoFlow(plan).hyperparameters())
    log.stop("init_stop")
    log.start("run_start")
    log.quality("eval_error", quality, 1)
    log.end_run(success=True)
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]


def test_lines_have_mlperfs_fields_in_order_and_name_our_source(tmp_path: Path) -> None:
    lines = write_log(tmp_path / "mllog.txt")
    for line in lines:
        assert list(line) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
    assert lines[0]["metadata"]["file"].endswith("test_mlperf_log.py")  # type: ignore[index]
    keys = [line["key"] for line in lines]
    assert keys[:7] == [
        "submission_benchmark",
        "submission_org",
        "submission_division",
        "submission_status",
        "submission_platform",
        "cache_clear",
        "init_start",
    ]
    assert keys.index("init_stop") > keys.index("opt_learning_rate_warmup_factor")
    assert keys[-1] == "run_stop"
    assert lines[-1]["metadata"]["status"] == "success"  # type: ignore[index]


def test_values_are_those_of_the_run(tmp_path: Path) -> None:
    lines = write_log(tmp_path / "mllog.txt", cleared=True)
    values = {line["key"]: line["value"] for line in lines}
    assert values["cache_clear"] is True
    assert (values["train_samples"], values["eval_samples"]) == (16, 7)
    assert (values["global_batch_size"], values["seed"], values["number_of_ranks"]) == (4, 7, 1)
    assert (values["opt_name"], values["sgd_opt_momentum"], values["accelerators_per_node"]) == ("sgd", 0.9, 0)


@pytest.mark.parametrize("quality", [math.nan, math.inf])
def test_what_is_no_number_is_not_logged(tmp_path: Path, quality: float) -> None:
    assert "eval_error" not in [line["key"] for line in write_log(tmp_path / "mllog.txt", quality=quality)]


def test_other_ranks_log_nothing(tmp_path: Path) -> None:
    MlperfLog(tmp_path / "mllog.txt", active=False).start("init_start")
    assert not (tmp_path / "mllog.txt").exists()


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 5.0])
def test_a_stepped_wall_clock_changes_no_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    log = MlperfLog(tmp_path / "mllog.txt", active=True)
    log.start("run_start")
    before_s, now_s = time.monotonic(), time.time()
    monkeypatch.setattr("time.time", lambda: now_s + step_s)
    time.sleep(0.05)
    log.end_run(success=True)
    took_s = time.monotonic() - before_s
    lines = (tmp_path / "mllog.txt").read_text().splitlines()
    start, stop = (json.loads(line.removeprefix(":::MLLOG "))["time_ms"] for line in lines)
    assert 0.05 <= (stop - start + 1) / 1000 <= took_s + 0.05


def test_stamps_are_those_of_the_wall_clock_at_the_start(tmp_path: Path) -> None:
    chrono.clocks.cache_clear()
    Journal(tmp_path, active=True)
    read = json.loads((tmp_path / "clocks.json").read_text())
    assert read["wall_s"] == pytest.approx(time.time(), abs=5)
    between_s = time.monotonic() - read["monotonic_s"]
    assert chrono.stamp_ms() / 1000 == pytest.approx(read["wall_s"] + between_s, abs=0.01)
