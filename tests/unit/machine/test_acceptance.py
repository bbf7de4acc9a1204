"""What one node writes: sustained rates, blocks of copies, storage that counts, and a part that fails."""

import argparse
import sys
import time
from itertools import cycle

import pytest

from hpcai.config.machine import this_node
from hpcai.core.machine_lock import PLACE_VARIABLE
from hpcai.machine import acceptance
from hpcai.machine.acceptance import COPIES, MEASURES, NodeSeries, measure_node, result_file, visible_accelerators
from hpcai.machine.ceilings.sampling import NotMeasured, Sample, Way, report_of
from hpcai.machine.ceilings.sustained import Repeats, sustain
from hpcai.metrics.statistics.fleet import standard_error
from hpcai.records.files import read_part


@pytest.fixture(autouse=True)
def _own_lock(monkeypatch, tmp_path):
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path))


def asked(*parts, **changes):
    usual = {"parts": parts, "cores": 1, "accelerators": 0, "repeats": 3, "window_s": 0.01, "file_bytes": 1e6}
    usual |= {"precision": 0.5, "longest_s": 0.0}
    return argparse.Namespace(**{**usual, "scratch": "/nowhere/at/all", "shared": ".", **changes})


def sample(kind="memory", backend="numpy copy", work=1.0, duration_s=1.0, **changes):
    fields = {"kind": kind, "backend": backend, "setting": "s", "threads": 1, "unit": "B/s"}
    return Sample.model_validate({**fields, "work": work, "duration_s": duration_s, **changes})


def test_each_repetition_fills_its_window_with_the_method_of_training():
    def way(name, pause_s):
        return Way("gemm", "fp32", name, "1", 1.0, lambda: time.sleep(pause_s))

    def fails():
        raise RuntimeError

    ways = [Way("gemm", "fp32", "none", "1", 1.0, fails), way("numpy", 0.001), way("tensorflow, eager", 0.004)]
    samples = list(sustain(ways, 1, Repeats(3, 0.5, 0.0), 0.02))
    assert [one.backend for one in samples] == [
        "tensorflow, eager"
    ] * 3  # on every node, however fast the others are here
    assert {one.backend for one in sustain(ways[:2], 1, Repeats(3, 0.5, 0.0), 0.02)} == {"numpy"}
    assert all(one.duration_s > 0.015 for one in samples)
    assert all(one.work == samples[0].work > 1 for one in samples)


def test_repetitions_go_on_until_they_are_precise_or_time_is_up():
    now_s, values = iter(range(1000)), [1.0, 1.2, 0.8]
    steps = cycle([0.9, 1.1, 1.05, 1.2, 0.95, 0.8])
    for _ in Repeats(3, 0.03, 100.0).rounds(lambda: [values], lambda: next(now_s)):
        assert standard_error(values) > 0.03 or len(values) < 6
        values.append(next(steps))
    assert standard_error(values) <= 0.03
    assert 10 < len(values) < 100
    assert (
        len(list(Repeats(3, 0.0001, 10.0).rounds(lambda: [values], lambda: next(now_s)))) == 12
    )  # two before the clock is read
    assert len(list(Repeats(3, 0.0001, 0.0).rounds(lambda: [values], lambda: next(now_s)))) == 3


def test_a_block_of_copies_is_total_work_over_total_time(monkeypatch):
    # The second block has one call that stands still, as on a throttled node: it counts in full.
    times_s = [1.0] * COPIES + [1.0] * (COPIES - 1) + [1.0 + COPIES]
    report = report_of([sample(duration_s=time_s) for time_s in times_s])
    monkeypatch.setattr(acceptance, "measure_memory", lambda *_, **__: report)
    (copy,) = measure_node(asked("memory"))
    assert (copy.subject, copy.measure) == (this_node(), "memory copy")
    assert copy.values == pytest.approx((1.0, 0.5))


def test_a_job_with_too_little_memory_is_no_broken_node(monkeypatch):
    lacking = NotMeasured(kind="memory", backend="numpy", threads=1, reason="too little")
    monkeypatch.setattr(acceptance, "measure_memory", lambda *_, **__: report_of([], [lacking]))
    (copy,) = measure_node(asked("memory"))
    assert (copy.measure, copy.failed, copy.values, copy.reason) == ("memory copy", False, (), "too little")


def test_reads_from_memory_are_no_reads(monkeypatch):
    cold = {"kind": "storage_read", "page_cache": "cold"}
    samples = [sample("storage_write", "write and fsync"), sample(backend="read, O_DIRECT", **cold)]
    samples.append(sample(backend="read", kind="storage_read", page_cache="warm"))
    missing = [NotMeasured(kind="storage_read", reason="warm")]
    monkeypatch.setattr(acceptance, "measure_storage", lambda *_: report_of(samples, missing))
    found = {one.measure: one for one in measure_node(asked("scratch"))}
    assert found["scratch write and fsync"].values == found["scratch read, O_DIRECT"].values == (1.0,)
    assert found["scratch read"].values == ()
    assert (found["scratch read"].failed, found["scratch read"].reason) == (False, "warm")


def test_a_part_that_fails_costs_no_other(monkeypatch):
    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(acceptance, "measure_sustained", fail)
    monkeypatch.setattr(acceptance, "measure_memory", lambda *_, **__: report_of([sample()] * 3 * COPIES))
    found = list(measure_node(asked("compute", "memory")))
    assert [(one.measure, one.failed) for one in found] == [(MEASURES["compute"], True), ("memory copy", False)]


def test_accelerators_are_measured_each_and_one_that_is_lost_is_named(monkeypatch):
    def measure(options, *_, **variables):
        if variables.get("CUDA_VISIBLE_DEVICES") == "5":
            raise OSError(5, "lost")
        kind = {"kind": "gemm", "precision": "fp32", "unit": "FLOP/s"}
        return [sample(**kind, backend=options.device)] * 3

    monkeypatch.setattr(acceptance, "measure_sustained", measure)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    found = {one.subject: one for one in measure_node(asked("compute", accelerators=2))}
    node = this_node()
    assert set(found) == {node, f"{node} accelerator 0", f"{node} accelerator 1"}
    assert found[f"{node} accelerator 0"].values == (1.0, 1.0, 1.0)
    assert (found[f"{node} accelerator 1"].kind, found[f"{node} accelerator 1"].failed) == ("accelerator", True)


def test_hidden_accelerators_are_still_asked_for(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert visible_accelerators(2) == ["7", "1"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_accelerators(3) == ["0", "1", "2"]


def test_a_node_writes_its_own_file(monkeypatch, tmp_path):
    monkeypatch.setattr(acceptance, "measure_memory", lambda *_, **__: report_of([sample()] * 3 * COPIES))
    words = ["--parts", "memory", "--output", tmp_path, "--cores", 1, "--repeats", 3, "--window-s", 0.1]
    words += ["--precision", 0.5, "--longest-s", 0]
    words += ["--file-bytes", 1e6, "--scratch", tmp_path, "--shared", tmp_path]
    monkeypatch.setattr(sys, "argv", ["acceptance", *map(str, words)])
    acceptance.main()
    found = read_part(NodeSeries, result_file(tmp_path, this_node(), ["memory"]))
    assert found.node == this_node()
    assert len(found.series[0].values) == 3
