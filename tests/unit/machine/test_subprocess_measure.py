"""Measuring processes: how they handle slow, failing and crashing methods."""

import subprocess
import sys
import time
from collections import Counter

import pytest

from hpcai.machine import subprocess_measure
from hpcai.machine.ceilings import agreement
from hpcai.machine.ceilings.sampling import NotMeasured, Sample, Way
from hpcai.machine.subprocess_measure import Options, measure_apart, sample_ways
from hpcai.profiles.ceilings_view import ceiling_rows

OPTIONS = Options(threads=1, device="cpu", repeats=3)
ENDED = """
import os, signal
from hpcai.machine.subprocess_measure import parse_options, sample_ways
from hpcai.machine.ceilings.sampling import Way
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


@pytest.fixture
def rates(monkeypatch):
    """Replace clocks by rates: those of each setting in turn, the last one from then on."""

    def replace(of_setting: dict[str, list[float]]) -> None:
        left = {setting: list(values) for setting, values in of_setting.items()}

        def time_way(way: Way, threads: int) -> Sample:
            way.run()
            values = left[way.setting]
            rate = values.pop(0) if len(values) > 1 else values[0]
            return Sample(
                kind=way.kind, precision=way.precision, backend=way.backend, setting=way.setting, threads=threads,
                work=way.work, unit=way.unit, duration_s=way.work / rate,
            )  # fmt: skip

        monkeypatch.setattr(subprocess_measure, "time_way", time_way)

    return replace


def count_samples(*ways: Way) -> Counter[str]:
    return Counter(sample.setting for sample in lines(*ways)[0])


BASE_COUNT = subprocess_measure.FORETELLING + OPTIONS.repeats - 1
"""Minimum repetitions of a family's first method."""


def test_the_fastest_way_is_repeated_until_its_best_two_agree(rates):
    rates({"10": [5000.0], "20": [7000.0, 4800.0, 4800.0, 6000.0, 4700.0, 6900.0, 100.0]})
    counts = count_samples(way(10), way(20))
    assert counts["10"] == BASE_COUNT
    assert counts["20"] == 6  # 7000 and 6900 agree


def test_ways_that_agree_are_not_repeated_further(rates):
    rates({"10": [759.0, 480.0, 722.0]})
    assert count_samples(way(10)) == {"10": BASE_COUNT}
    rates({"10": [759.0, 480.0, 710.0, 480.0]})
    assert count_samples(way(10))["10"] == BASE_COUNT + agreement.MOST_ROUNDS


def test_each_precision_has_to_agree(rates):
    rates({"10": [500.0, 300.0], "20": [500.0]})
    samples, _ = lines(way(10, precision="fp32"), way(20, precision="bf16"))
    counts = Counter(sample.precision for sample in samples)
    assert counts == {"fp32": BASE_COUNT + agreement.MOST_ROUNDS, "bf16": BASE_COUNT}


def test_what_fails_is_not_repeated_for_agreement(rates):
    calls = []

    def fail_late():
        calls.append(1)
        if len(calls) > 6:
            raise MemoryError("no room")

    rates({"10": [500.0, 300.0]})
    samples, missing = lines(way(10, fail_late))
    assert (len(samples), len(missing)) == (BASE_COUNT, 1)


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


def test_what_moves_bytes_is_too_slow_in_bytes():
    least, most = (Way("memory", "", "test", f"{work:g}", work, lambda: time.sleep(0.01)) for work in (10.0, 1e9))
    _, missing = lines(least, most)
    assert "B/s" in missing[0].reason
    assert "FLOP" not in missing[0].reason


def test_every_call_is_announced_before_it_is_made(rates):
    rates({"10": [1000.0], "20": [1000.0]})
    announced, calls = [""], []
    ways = [way(work, run=lambda work=work: calls.append((announced[-1], f"{work:g}"))) for work in (10.0, 20.0)]
    for line in sample_ways(ways, OPTIONS):
        if isinstance(line, subprocess_measure._Trying):
            announced.append(line.trying.rpartition("|")[2])  # noqa: PERF401  the calls look at it meanwhile
    assert announced[1:] == ["10", "20"] * OPTIONS.repeats
    assert len(calls) > 2 * OPTIONS.repeats
    assert all(name == called for name, called in calls)


def test_what_fails_in_a_repetition_keeps_its_samples_and_says_so():
    calls = []

    def fail_late():
        calls.append(1)
        if len(calls) > 5:
            raise MemoryError("no room")

    samples, missing = lines(way(run=fail_late))
    assert len(samples) == 4
    assert {one.reason for one in missing} == {"MemoryError: no room"}


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
    report = measure_apart("gemm", program(ENDED), [1], "cpu", 2)
    assert {summary.precision for summary in report.summaries} == {"fp32", "fp16"}
    (missing,) = report.not_measured
    assert (missing.precision, missing.backend) == ("bf16", "bad")
    assert "ended by SIGILL" in missing.reason


LATE = """
import os, signal
from hpcai.machine.subprocess_measure import parse_options, sample_ways
from hpcai.machine.ceilings.sampling import Way
calls = []
def crash():
    calls.append(1)
    if len(calls) > 5: os.kill(os.getpid(), signal.SIGSEGV)
ways = [Way("gemm", "fp32", name, "1", 1e3, crash if name == "b" else lambda: None) for name in "abc"]
for line in sample_ways(ways, parse_options("x")):
    print(line.model_dump_json(), flush=True)
"""


def test_a_crash_in_a_repetition_is_that_of_the_way_that_was_repeated(program):
    report = measure_apart("gemm", program(LATE), [1], "cpu", 4)
    assert {summary.backend for summary in report.summaries} == {"a", "c"}
    assert [(one.backend, "SIGSEGV" in one.reason) for one in report.not_measured] == [("b", True)]


def said(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


PLAN = '{"ways": ["gemm|fp32|a|1", "gemm|fp32|b|1", "gemm|fp32|b|2", "gemm|bf16|c|1"]}'
TRYING_A, TRYING_B = '{"trying": "gemm|fp32|a|1"}', '{"trying": "gemm|fp32|b|1"}'
SAMPLE_A = Sample(
    kind="gemm", precision="fp32", backend="a", setting="1", threads=1, work=1e3, unit="FLOP/s", duration_s=1.0
).model_dump_json()


@pytest.fixture
def processes(monkeypatch):
    """Replace processes by their output: an exit status, or None for one that does not end."""
    commands = []

    def replace(*endings: tuple[int | None, bytes]):
        left = list(endings)

        def run(command, timeout, **_options):
            commands.append(command)
            status, output = left.pop(0)
            if status is None:
                raise subprocess.TimeoutExpired(command, timeout, output, b"")
            return subprocess.CompletedProcess(command, status, output, b"why")

        monkeypatch.setattr(subprocess_measure.subprocess, "run", run)
        return commands

    return replace


def test_a_time_out_ends_the_measurement_and_keeps_what_was_timed(processes):
    commands = processes((None, said(PLAN, TRYING_A, SAMPLE_A, TRYING_B) + b'{"trying": "ge'))
    report = measure_apart("gemm", "module", [1], "cpu", 2)
    assert len(commands) == 1
    assert [summary.backend for summary in report.summaries] == ["a"]
    assert [(one.backend, one.setting) for one in report.not_measured] == [("b", "1"), ("b", "2"), ("c", "1")]
    assert {one.reason for one in report.not_measured} == {
        subprocess_measure.TIME_UP_IN(limit_s=600, trying="gemm fp32 b 1")
    }
    rows = ceiling_rows(report, "x").set_index("backend")
    assert list(rows["setting"]) == ["1", "2 settings", "1"]
    assert list(rows.loc[["b", "c"], "value"].isna()) == [True, True]


def test_time_is_up_for_all_processes_together(processes, monkeypatch):
    times = iter([0.0, 0.0, 590.0, 590.0, 590.0])
    monkeypatch.setattr(subprocess_measure.time, "monotonic", lambda: next(times, 700.0))
    commands = processes((-11, said(PLAN, TRYING_B, TRYING_A, SAMPLE_A, TRYING_B)), (None, said(PLAN)))
    report = measure_apart("gemm", "module", [1], "cpu", 2)
    assert commands[1][-1] == "--without=gemm|fp32|b|1"
    assert [summary.backend for summary in report.summaries] == ["a"]  # from the process that crashed
    reasons = {(one.backend, one.setting): one.reason for one in report.not_measured}
    assert "SIGSEGV" in reasons["b", "1"]
    assert reasons["b", "2"] == reasons["c", "1"] == subprocess_measure.TIME_UP(limit_s=600)


def test_a_process_that_cannot_start_measuring_is_a_row_with_its_reason(program):
    text = "import sys\nprint('no luck', file=sys.stderr)\nsys.exit(3)"
    (missing,) = measure_apart("gemm", program(text), [1], "cpu", 2).not_measured
    assert (missing.kind, missing.threads) == ("gemm", 1)
    words = {"module": "crashing", "ending": "ended with 3", "error": "no luck"}
    assert missing.reason == subprocess_measure.ENDED_BADLY(**words)


def test_a_process_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(subprocess_measure, "LONGEST_S", 0.2)
    report = measure_apart("gemm", program("import time\ntime.sleep(60)"), [1], "cpu", 2)
    assert "was ended after 0.2 s" in report.not_measured[0].reason


def test_a_program_that_is_not_there_is_a_reason(tmp_path):
    report = measure_apart("gemm", "module", [1], "cpu", 2, python=[str(tmp_path / "none")])
    assert "No such file" in report.not_measured[0].reason


def test_more_threads_than_cores_is_a_reason_and_the_others_are_measured(program):
    report = measure_apart("gemm", program(ENDED.replace("crash)", "lambda: None)")), [1, 100_000], "cpu", 2)
    assert {sample.threads for sample in report.samples} == {1}
    (missing,) = report.not_measured
    assert (missing.kind, missing.threads) == ("gemm", 100_000)
    assert subprocess_measure.TOO_MANY_THREADS.find_in(missing.reason)["threads"] == "100000"
    assert ceiling_rows(report, "x").set_index("threads").loc[100_000, "status"] == "not measured"


def test_an_accelerator_is_measured_once(program):
    text = f"print({sys.argv[0]!r}, file=__import__('sys').stderr)\n" + ENDED.replace("crash)", "lambda: None)")
    report = measure_apart("gemm", program(text), [1, 2], "gpu", 1)
    assert {sample.threads for sample in report.samples} == {1}
