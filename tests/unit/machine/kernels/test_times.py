"""Measuring kernels: short ones repeat more often, operations are correct, a crash costs one case."""

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from hpcai.core.errors import ConfigError, LaunchError
from hpcai.machine.kernels import times as kernel_times
from hpcai.machine.kernels.draft import Fingerprint, Started, TimedCase, append_line, read_cases, resume_draft
from hpcai.machine.kernels.operations import MOMENTUM, Operation, operation
from hpcai.machine.kernels.process import (
    ENOUGH_S,
    MOST_REPETITIONS,
    REPETITIONS,
    list_cases,
    time_case,
    time_operation,
)
from hpcai.machine.kernels.times import COLUMNS, join_passes, measure_kernels, tabulate_times
from hpcai.predict.kernels.cases import FAMILIES, KERNELS

CASE = {
    "batch": 2,
    "edge": 5,
    "channels_in": 3,
    "channels_out": 4,
    "kernel_edge": 3,
    "stride": 2,
    "m": 4,
    "n": 5,
    "k": 6,
    "parameters": 7,
    "size_bytes": 13,
}
ORIGIN = Fingerprint(processor="p", software="s", onednn="1", threads=1, seed=3, cases="c")
STUB = """
import os, signal, sys, time
from hpcai.machine.kernels import process
from hpcai.machine.kernels.draft import TimedCase
def time_case(kernel, index, case):
    if (kernel, index) == ("copy", 1):
        {trouble}
    return TimedCase(kernel=kernel, index=index, cpu_time_s=1.0, cpu_time_min_s=0.5, repetitions=3)
process.settle = lambda: {start}
process.software_versions = lambda: "s"
process.time_case = time_case
sys.argv = sys.argv[2:]
process.main()
"""


def stub(trouble: str = "pass", start: str = "None") -> list[str]:
    return [sys.executable, "-c", STUB.format(trouble=trouble, start=start)]


@pytest.mark.parametrize(("time_s", "count"), [(1e-9, MOST_REPETITIONS), (ENOUGH_S / 10, 10), (1.0, REPETITIONS)])
def test_short_operations_are_called_more_often(monkeypatch, time_s, count):
    calls, clock = [], iter(np.arange(1000) * time_s)
    # The clock is read before and after each counted call; the difference is one call's time.
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    times = time_operation(Operation(calls.append, [tf.ones([2])]))
    assert abs(len(times) - count) <= 1
    assert len(calls) == len(times) + 2
    np.testing.assert_allclose(times, time_s, rtol=1e-6, atol=1e-15)


def test_updates_are_executed_one_after_the_other():
    update = operation("sgd", CASE)
    for _ in range(12):
        update.compute(*update.operands)
    (gradient,) = update.operands
    from hpcai.machine.kernels.operations import _variables

    _, velocity = _variables()
    np.testing.assert_allclose(velocity, gradient * (1 - MOMENTUM**12) / (1 - MOMENTUM), rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_runs(kernel):
    timed = time_case(kernel, 0, CASE)
    assert (timed.kernel, timed.reason) == (kernel, "")
    assert timed.repetitions >= REPETITIONS
    assert timed.cpu_time_s >= timed.cpu_time_min_s > 0


@pytest.mark.parametrize("dimensions", [2, 3])
def test_gradients_of_convolutions_are_those_of_the_forward_kernel(dimensions):
    forward = operation(f"conv{dimensions}d_forward", CASE)
    inputs, weights = forward.operands
    to_input = operation(f"conv{dimensions}d_input_gradient", CASE)
    to_weights = operation(f"conv{dimensions}d_weight_gradient", CASE)
    with tf.GradientTape() as tape:
        tape.watch([inputs, weights])
        outputs = forward.compute(inputs, weights)
    wanted = tape.gradient(outputs, [inputs, weights], output_gradients=to_input.operands[2])
    np.testing.assert_allclose(to_input.compute(*to_input.operands), wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_weights.compute(*to_weights.operands), wanted[1], rtol=1e-4, atol=1e-4)


def test_products_have_the_shapes_of_a_dense_layer():
    shapes = [[tuple(x.shape) for x in operation(f"gemm_{s}", CASE).operands] for s in ("forward", "input_gradient")]
    assert shapes == [[(5, 6), (6, 4)], [(5, 6), (4, 6)]]
    to_weights = operation("gemm_weight_gradient", CASE)
    assert to_weights.compute(*to_weights.operands).shape == (5, 4)


def test_softmax_gradient_is_that_of_tensorflow():
    backward = operation("softmax_backward", CASE)
    outputs, gradient = backward.operands
    with tf.GradientTape() as tape:
        tape.watch(gradient)
        again = tf.nn.softmax(gradient)
    np.testing.assert_allclose(again, outputs, rtol=1e-5)
    wanted = tape.gradient(again, gradient, output_gradients=gradient)
    np.testing.assert_allclose(backward.compute(outputs, gradient), wanted, rtol=1e-4, atol=1e-6)


def test_a_case_that_cannot_run_has_a_reason():
    failed = time_case("max_pool_forward", 5, {**CASE, "edge": 1})
    assert failed.cpu_time_s is None
    assert failed.reason


def test_kernels_take_turns():
    assert [key[:2] for key in list_cases("update", 2, 1)] == [("sgd", 0), ("copy", 0), ("sgd", 1), ("copy", 1)]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("os.kill(os.getpid(), signal.SIGABRT)", "SIGABRT"), ("time.sleep(60)", "without a result"), ("os._exit(9)", "9")],
)
def test_a_case_that_crashes_or_hangs_is_left_out_alone(tmp_path, monkeypatch, trouble, words):
    monkeypatch.setattr(kernel_times, "CASE_LIMIT_S", 3.0)
    table = measure_kernels("update", 3, 1, tmp_path / "draft.jsonl", passes=1, python=stub(trouble))
    assert set(table.columns) == {*COLUMNS, "pass_spread_ratio", "others_ratio", "method", "source"}
    assert table["others_ratio"].between(0, 1).all()
    assert len(table) == 6
    (missing,) = table[table["reason"] != ""].itertuples()
    assert (missing.kernel, missing.repetitions) == ("copy", 0)
    assert np.isnan(missing.cpu_time_s)
    assert words in missing.reason
    assert (table["cpu_time_s"].dropna() == 1.0).all()
    assert table["parameters"].isna().tolist() == [False] * 3 + [True] * 3


def test_what_fails_before_the_first_case_is_an_error(tmp_path):
    with pytest.raises(LaunchError, match="not today"):
        measure_kernels("update", 1, 1, tmp_path / "draft.jsonl", passes=1, python=stub(start="sys.exit('not today')"))


@pytest.mark.parametrize(("family", "samples", "seed"), [("gemms", 1, 1), ("gemm", 0, 1), ("gemm", 1, -1)])
def test_unknown_families_and_impossible_numbers_are_refused(tmp_path, family, samples, seed):
    with pytest.raises(ConfigError, match="found"):
        measure_kernels(family, samples, seed, tmp_path / "draft.jsonl", passes=1)


def one_pass(*times, reason=""):
    rows = [{"kernel": "sgd", "parameters": 2.0**place, "cpu_time_s": time} for place, time in enumerate(times)]
    table = pd.DataFrame(rows).assign(cpu_time_min_s=lambda rows: rows["cpu_time_s"] / 2, repetitions=3)
    return table.assign(reason=np.where(table["cpu_time_s"].isna(), reason, ""), method="m", source="s")


def test_the_least_disturbed_pass_counts():
    nan = float("nan")
    passes = [one_pass(3.0, 1.0, nan, nan, reason="a"), one_pass(2.0, 4.0, 5.0, nan, reason="b")]
    table = join_passes(passes)
    assert table["parameters"].to_list() == [1.0, 2.0, 4.0, 8.0]
    np.testing.assert_equal(table["cpu_time_s"].to_numpy(), [2.0, 1.0, 5.0, nan])
    np.testing.assert_equal(table["cpu_time_min_s"].to_numpy(), [1.0, 0.5, 2.5, nan])
    np.testing.assert_equal(table["pass_spread_ratio"].to_numpy(), [1.5, 4.0, 1.0, nan])
    assert table["repetitions"].to_list() == [6] * 4
    assert table["reason"].to_list() == ["", "", "", "a"]
    assert "case" not in table


def test_an_interrupted_measurement_goes_on_after_its_last_whole_line(tmp_path):
    draft = tmp_path / "draft.jsonl"
    resume_draft(draft, ORIGIN)
    append_line(draft, Started(run="1"))
    append_line(draft, TimedCase(kernel="sgd", index=0, cpu_time_s=2.0, cpu_time_min_s=1.0, repetitions=3))
    with draft.open("a") as file:
        file.write('{"kernel": "co')
    assert resume_draft(draft, ORIGIN) == {("sgd", 0)}
    append_line(draft, TimedCase(kernel="copy", index=0, reason="r"))
    assert set(read_cases(draft)) == {("sgd", 0), ("copy", 0)}


@pytest.mark.parametrize("change", [{"processor": "q"}, {"software": "t"}, {"seed": 4}, {"threads": 2}])
def test_a_draft_of_other_origin_starts_anew(tmp_path, change):
    draft = tmp_path / "draft.jsonl"
    resume_draft(draft, ORIGIN)
    append_line(draft, TimedCase(kernel="sgd", index=0, reason="r"))
    assert resume_draft(draft, ORIGIN.model_copy(update=change)) == set()
    assert read_cases(draft) == {}


def test_table_has_sizes_and_costs_of_its_cases(tmp_path):
    draft = tmp_path / "draft.jsonl"
    resume_draft(draft, ORIGIN)
    append_line(draft, TimedCase(kernel="copy", index=2, cpu_time_s=2.0, cpu_time_min_s=1.0, repetitions=3))
    (row,) = tabulate_times("update", 3, 3, draft).itertuples()
    (wanted,) = [case for kernel, index, case in list_cases("update", 3, 3) if (kernel, index) == ("copy", 2)]
    assert row.size_bytes == wanted["size_bytes"]
    assert row.moved_bytes == 2 * wanted["size_bytes"]
    assert (row.cpu_time_s, row.method, row.source) == (2.0, kernel_times.METHOD, "s on p, 1 thread")


def test_operations_exist_for_all_kernels():
    assert {kernel for kernels in FAMILIES.values() for kernel in kernels} == set(KERNELS)
    assert all(operation(kernel, CASE).operands for kernel in KERNELS)


FAULTS = """
import ctypes, resource, sys, threading
from hpcai.machine.kernels.process import keep_freed_memory
if "kept" in sys.argv:
    keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.memset.argtypes, library.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]

def use(sizes):
    blocks = [(library.malloc(size), size) for size in sizes]
    for place, size in blocks:
        library.memset(place, 1, size)
    for place, _ in blocks:
        library.free(place)

def use_again(sizes):
    for _ in range(3):
        use(sizes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use(sizes)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

def fill_a_heap():
    library.free(library.malloc(9 << 20))  # from now on so much comes from the heap
    held = [library.malloc(9 << 20) for _ in range(7)]
    use_again([9 << 20])

if "thread" in sys.argv:
    threading.Thread(target=fill_a_heap).start()
else:
    use_again([20 << 20] * 5)
"""


@pytest.mark.parametrize("where", ["process", "thread"])
def test_memory_that_a_call_frees_is_there_for_the_next_one(where):
    """Also that of a thread whose heap of 64 MiB has no room for a buffer that each call takes and frees."""

    def faults(*words):
        command = [sys.executable, "-c", FAULTS, where, *words]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)

    assert faults("kept") < 100 < faults()
