"""The window of steps visible to a profiler."""

import os

import numpy as np
import pytest
import tensorflow as tf

from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import LaunchError, ParseError
from hpcai.parsers.tensorflow_profile import read_input_stages, read_tensorflow_profile
from hpcai.records.files import read_part
from hpcai.records.input_window import InputWindow, ReadCounters, counters_name, trace_name
from hpcai.training import step_profiler as module
from hpcai.training.input import Reading, Samples, Schedule, Shard, train_batches
from hpcai.training.step_profiler import step_profiler


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of three steps after the warm-up, each a product inside a function."""
    folder = tmp_path_factory.mktemp("trace")
    multiply = tf.function(lambda one, two: tf.nn.relu(tf.linalg.matmul(one, two)))
    factors = tf.random.stateless_normal([2, 200, 200], seed=[1, 2])
    multiply(factors[0], factors[1])
    profiler = step_profiler("tensorflow", folder, rank=0)
    for step in range(WARM_STEPS + 3):
        profiler.before_step(step)
        multiply(factors[0], factors[1]).numpy()
    profiler.close()
    profiler.close()
    return folder / "steps.xplane.pb"


def test_only_steps_of_the_window_are_seen(trace):
    reading = read_tensorflow_profile(trace)
    table = reading.table
    assert reading.is_whole
    products = table[table["name"].str.contains("MatMul")]
    assert len(products) == 3
    assert (table["self_s"] <= table["duration_s"] + 1e-12).all()
    assert (table["self_s"] >= 0).all()
    start_s, stop_s = reading.facts["start_wall_s"], reading.facts["start_wall_s"] + reading.facts["duration_s"]
    assert table["start_s"].between(start_s, stop_s).all()
    assert not list(trace.parent.glob("tensorflow_profile"))


def test_damage_is_an_error_or_leaves_the_numbers(trace, tmp_path):
    data = trace.read_bytes()
    (tmp_path / "empty").touch()
    with pytest.raises(ParseError, match="an empty file"):
        read_tensorflow_profile(tmp_path / "empty")
    whole = read_tensorflow_profile(trace).table
    for place in (1, len(data) // 3, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:place])
        with pytest.raises(ParseError):
            read_tensorflow_profile(tmp_path / "cut")
    (tmp_path / "foreign").write_bytes(b"<!DOCTYPE html>\n<html></html>\n")
    with pytest.raises(ParseError, match="an HTML page"):
        read_tensorflow_profile(tmp_path / "foreign")
    assert len(whole)


def test_other_ranks_are_left_alone(tmp_path):
    profiler = step_profiler("tensorflow", tmp_path, rank=1)
    profiler.before_step(WARM_STEPS)
    profiler.close()
    assert not list(tmp_path.iterdir())


def test_without_cuda_the_window_cannot_be_opened(tmp_path, monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(module.ctypes, "CDLL", missing)
    with pytest.raises(LaunchError, match="libcudart: not found"):
        step_profiler("cuda", tmp_path, rank=0)


def test_cuda_tools_are_told_begin_and_end(tmp_path, monkeypatch):
    """Each after all work given to the accelerator before: a loss is fetched one step late."""
    calls = []

    class Runtime:
        def __getattr__(self, name):
            return lambda: calls.append(name)

    class Loss:
        def __float__(self):
            calls.append("loss")
            return 1.0

    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: Runtime())
    profiler = step_profiler("cuda", tmp_path, rank=0)
    opened = ["loss", "cudaDeviceSynchronize", "cudaProfilerStart"]
    for step in range(WARM_STEPS + 2):
        assert calls == (opened if step > WARM_STEPS else [])
        profiler.before_step(step, Loss())
    profiler.close()
    assert calls == [*opened, "cudaDeviceSynchronize", "cudaProfilerStop"]


RECORD_BYTES, FRAME_BYTES, FILES = 1 << 20, 16, 8


@pytest.fixture(scope="module")
def input_window(tmp_path_factory):
    """What rank 2 wrote of an epoch of files with one record each."""
    folder = tmp_path_factory.mktemp("input")
    paths = tuple(folder / f"{number}.tfrecord" for number in range(FILES))
    for path in paths:
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(os.urandom(RECORD_BYTES))
    numbers, lengths = np.arange(FILES), np.full(FILES, RECORD_BYTES + FRAME_BYTES)
    samples = Samples(paths, numbers, np.zeros(FILES, np.int64), Shard(0, 1), gzip=False, file_bytes=lengths)
    reading = Reading(lambda record, _: (tf.io.decode_raw(record, tf.uint8), 1.0), lambda data, b: data.batch(b), 2, 1)
    batches = iter(train_batches(samples, reading, Schedule(seed=1, epochs=1, rank_samples=FILES)))
    profiler = step_profiler("input", folder, rank=2)
    for step in range(FILES // 2):
        profiler.before_step(step)
        next(batches)
    profiler.close()
    profiler.close()
    return folder


def test_a_rank_counts_the_bytes_of_its_input(input_window):
    found = read_part(InputWindow, input_window / counters_name(2))
    if found.before.read_bytes is None:
        pytest.skip("this kernel does not count the reads of a process")
    expected = FILES * (RECORD_BYTES + FRAME_BYTES)
    assert expected <= found.counted("read_bytes") <= 1.01 * expected
    assert found.counted("reads") >= FILES
    assert 0 < found.stop_s - found.start_s < 60


def test_stages_of_the_pipeline_are_timed(input_window):
    stages = read_input_stages(input_window / trace_name(2)).table
    reads = stages[stages["stage"].str.startswith("TFRecord")]
    assert len(reads) == FILES
    assert (reads["duration_s"] > 0).all()
    # What asks for records takes longer than reading them.
    assert stages.loc[stages["stage"] == "FiniteTake", "duration_s"].sum() >= reads["duration_s"].sum()
    with pytest.raises(ParseError):
        read_input_stages(input_window / counters_name(2))


def test_a_kernel_that_does_not_count_is_no_zero(tmp_path):
    nothing = ReadCounters.of_this_process(tmp_path / "io")
    window = InputWindow(rank=0, process_id=1, start_s=0, stop_s=1, before=nothing, after=nothing)
    assert np.isnan(window.counted("read_bytes"))
