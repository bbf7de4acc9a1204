"""The window of steps visible to a profiler."""

import pytest
import tensorflow as tf

from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import LaunchError, ParseError
from hpcai.parsers.tensorflow_profile import read_tensorflow_profile
from hpcai.training import step_profiler as module
from hpcai.training.step_profiler import step_profiler


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of three steps after the warm-up, each a product inside a function."""
    folder = tmp_path_factory.mktemp("trace")
    multiply = tf.function(lambda one, two: tf.nn.relu(tf.linalg.matmul(one, two)))
    factors = tf.random.stateless_normal([2, 200, 200], seed=[1, 2])
    multiply(factors[0], factors[1])
    profiler = step_profiler("tensorflow", folder, active=True)
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
    profiler = step_profiler("tensorflow", tmp_path, active=False)
    profiler.before_step(WARM_STEPS)
    profiler.close()
    assert not list(tmp_path.iterdir())


def test_without_cuda_the_window_cannot_be_opened(tmp_path, monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(module.ctypes, "CDLL", missing)
    with pytest.raises(LaunchError, match="libcudart: not found"):
        step_profiler("cuda", tmp_path, active=True)


def test_cuda_tools_are_told_begin_and_end(tmp_path, monkeypatch):
    calls = []

    class Runtime:
        def cudaProfilerStart(self):
            calls.append("start")

        def cudaProfilerStop(self):
            calls.append("stop")

    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: Runtime())
    profiler = step_profiler("cuda", tmp_path, active=True)
    for step in range(WARM_STEPS + 2):
        assert calls == (["start"] if step > WARM_STEPS else [])
        profiler.before_step(step)
    profiler.close()
    assert calls == ["start", "stop"]
