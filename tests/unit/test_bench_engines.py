"""The benches of the engines compare every engine on every benchmark that all of them train, and say the spread."""

import importlib
import os
from pathlib import Path
from typing import get_args

import pytest

from hpcai.config.base import Engine
from hpcai.config.workloads import BENCHMARKS

BENCH = Path(__file__).parents[2] / "bench"
BY_ALL = {name for name, model in BENCHMARKS.items() if set(model.engines) == set(get_args(Engine))}


@pytest.fixture
def bench(monkeypatch):
    """Import a bench as the program does that lies beside `plans.py`."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module


def workloads_of(bench, names):
    return {bench("plans").bench_plan(name, {}).benchmark.workload for name in names}


def test_benches_of_engines_compare_all_engines_on_all_that_they_share(bench):
    one, two = bench("bench_engines"), bench("bench_exchange")
    assert set(one.ENGINES) == set(two.ENGINES) == set(get_args(Engine))
    assert workloads_of(bench, [case.benchmark for case in one.CASES]) == BY_ALL
    assert workloads_of(bench, two.BATCHES) == BY_ALL


def test_ratios_are_those_of_a_round(bench):
    times_s = {"horovod": [1.0, 2.0, 4.0], "jax": [2.0, 2.0, 12.0]}
    rows = [row.split() for row in bench("plans").compare_engines(times_s)]
    assert rows == [
        ["horovod", "2000.00", "1.00", "1.00", "1.00"],
        ["jax", "2000.00", "2.00", "1.00", "3.00"],
    ]


def test_two_ranks_are_measured_in_turns(bench, monkeypatch, capsys):
    exchange, asked = bench("bench_exchange"), []
    monkeypatch.setattr(exchange, "ROUNDS", 2)
    exchange._compare("something", lambda engine, number: asked.append((number, engine)) or 1.0)
    assert asked == [(number, engine) for number in range(2) for engine in exchange.ENGINES]
    assert len(capsys.readouterr().out.splitlines()) == len(exchange.ENGINES)


def test_benches_use_the_kernels_of_ranks(bench, monkeypatch):
    """Without oneDNN TensorFlow has no gradient of DeepCAM's dilated convolutions on processors without AVX-512."""
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    importlib.reload(bench("plans"))
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
