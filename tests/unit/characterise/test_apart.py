"""Measuring processes: what they do with slow, failing and crashing ways."""

import sys
import time

import pytest

from hpcai.characterise import apart
from hpcai.characterise.apart import Options, measure_apart, sample_ways
from hpcai.characterise.sampling import NotMeasured, Sample, Way
from hpcai.errors import LaunchError

OPTIONS = Options(threads=1, device="cpu", repeats=3)
ENDED = """
import os, signal
from hpcai.characterise.apart import parse_options, sample_ways
from hpcai.characterise.sampling import Way
def crash(): os.kill(os.getpid(), signal.SIGILL)
ways = [Way("gemm", "fp32", "good", "1", 1e3, lambda: None), Way("gemm", "bf16", "bad", "1", 1e3, crash),
        Way("gemm", "fp16", "good", "1", 1e3, lambda: None)]
for line in sample_ways(ways, parse_options("x")):
    print(line.model_dump_json(), flush=True)
"""


def way(work: float = 1e3, run=lambda: None, precision: str = "fp32") -> Way:
    return Way("gemm", precision, "test", f"{work:g}", work, run)


def lines(*ways: Way) -> tuple[list[Sample], list[NotMeasured]]:
    found = list(sample_ways(ways, OPTIONS))
    return ([x for x in found if isinstance(x, Sample)], [x for x in found if isinstance(x, NotMeasured)])


def test_every_way_is_repeated_and_its_first_call_is_no_sample():
    calls = []
    samples, missing = lines(way(run=lambda: calls.append(1)))
    assert missing == []
    assert len(calls) == len(samples) + 1
    assert len(samples) >= OPTIONS.repeats


def test_calls_of_one_sample_are_queued_and_waited_for_once():
    waits = []
    queued = Way("gemm", "fp32", "test", "q", 5.0, lambda: "result", calls=4, wait=waits.append)
    samples, _ = lines(queued)
    assert {sample.work for sample in samples} == {20.0}
    assert len(waits) == len(samples) + 1
    assert set(waits) == {"result"}


def test_what_would_take_too_long_is_not_tried_and_says_why():
    slow = way(10.0, lambda: time.sleep(0.01))
    samples, missing = lines(slow, way(1e9, lambda: pytest.fail("tried")), way(1e9, precision="bf16"))
    assert {sample.setting for sample in samples if sample.precision == "fp32"} == {"10"}
    assert {sample.precision for sample in samples} == {"fp32", "bf16"}
    assert len(missing) == 1
    assert "one call would take about" in missing[0].reason
    assert "FLOP/s" in missing[0].reason


def test_what_fails_has_a_reason_and_no_number():
    def fail():
        raise NotImplementedError("no kernel\nfor this type")

    samples, missing = lines(way(run=fail), way(precision="bf16"))
    assert [one.reason for one in missing] == ["NotImplementedError: no kernel"]
    assert {sample.precision for sample in samples} == {"bf16"}


@pytest.fixture
def program(tmp_path, monkeypatch):
    def write(text: str) -> str:
        (tmp_path / "crashing.py").write_text(text)
        return "crashing"

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return write


def test_a_crash_takes_only_its_own_way_along(program):
    report = measure_apart(program(ENDED), [1], "cpu", 2)
    assert {summary.precision for summary in report.summaries} == {"fp32", "fp16"}
    (missing,) = report.not_measured
    assert (missing.precision, missing.backend) == ("bf16", "bad")
    assert "ended by SIGILL" in missing.reason


def test_a_process_that_cannot_start_measuring_is_an_error(program):
    with pytest.raises(LaunchError, match="ended with 3, expected exit status 0: no luck"):
        measure_apart(program("import sys\nprint('no luck', file=sys.stderr)\nsys.exit(3)"), [1], "cpu", 2)


def test_a_process_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(apart, "LONGEST_PROCESS_S", 0.2)
    with pytest.raises(LaunchError, match=r"was ended after 0\.2 s"):
        measure_apart(program("import time\ntime.sleep(60)"), [1], "cpu", 2)


def test_an_accelerator_is_measured_once(program):
    text = f"print({sys.argv[0]!r}, file=__import__('sys').stderr)\n" + ENDED.replace("crash)", "lambda: None)")
    report = measure_apart(program(text), [1, 2], "gpu", 1)
    assert {sample.threads for sample in report.samples} == {1}
