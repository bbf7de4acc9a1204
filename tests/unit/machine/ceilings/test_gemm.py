"""GEMM rates."""

import tempfile

import numpy as np
import pytest

from hpcai.machine.ceilings.gemm import DENSE, SHAPES, all_products, measure_gemm, products, square
from hpcai.machine.ceilings.sampling import time_way
from hpcai.machine.subprocess_measure import TOO_MANY_THREADS

TINY = (square(64),)


@pytest.fixture(autouse=True)
def own_lock(tmp_path_factory, monkeypatch):
    """Keep these tests from waiting for a concurrent measurement."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))


def test_each_backend_multiplies_in_the_precisions_it_has():
    found = {(way.backend, way.precision) for way in products(("fp64", "fp32", "bf16", "fp16"), TINY)}
    assert found == {
        *((backend, precision) for backend in ("numpy", "scipy") for precision in ("fp32", "fp64")),
        *(("tensorflow", precision) for precision in ("fp64", "fp32", "bf16", "fp16")),
    }


def test_work_is_a_multiplication_and_an_addition_for_each_term():
    assert square(128).work_flop == 2 * 128**3
    assert DENSE.work_flop == 2 * 64 * 2048 * 1000
    timed = time_way(products(("fp32",), (square(128),))[0], threads=1)
    assert timed.work == 2 * 128**3
    assert timed.value == pytest.approx(timed.work / timed.duration_s)
    assert timed.unit == "FLOP/s"


def test_all_backends_compute_the_same_product():
    # Different factors, so that no library can halve the work of a product with its own transpose.
    results = {way.backend: np.asarray(way.run()) for way in products(("fp64",), (DENSE,))}
    assert set(results) == {"numpy", "scipy", "tensorflow"}
    for result in results.values():
        assert result.shape == (64, 1000)
        np.testing.assert_allclose(result, results["numpy"], rtol=1e-6, atol=1e-6)


def test_less_work_comes_first_so_that_it_foretells_the_time_of_more():
    work = [shape.work_flop for shape in SHAPES]
    assert work == sorted(work)
    ways = all_products("cpu")
    assert {way.precision for way in ways} == {"fp64", "fp32", "bf16", "fp16"}


def test_more_threads_than_cores_is_a_reason():
    (missing,) = measure_gemm([100_000]).not_measured
    assert (missing.kind, missing.threads) == ("gemm", 100_000)
    assert TOO_MANY_THREADS.find_in(missing.reason)["threads"] == "100000"


def test_measured_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")  # the caller's setting must not count
    report = measure_gemm([1], repeats=1)
    assert {one.threads for one in report.samples} == {1}
    assert {one.precision for one in report.best} == {"fp64", "fp32", "bf16", "fp16"}
    for best in report.best:
        rates = [one.value for one in report.samples if one.precision == best.precision]
        assert best.best == max(rates)
        assert best.ways >= 1
