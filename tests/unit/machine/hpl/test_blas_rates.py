"""Rates of BLAS routines: measured shapes, counting of repetitions, and the routines themselves."""

import ctypes.util
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import lu_factor, solve_triangular

from hpcai.catalogue.tables import columns_of
from hpcai.core.disturbance import Disturbance
from hpcai.machine.hpl import blas_rates
from hpcai.machine.hpl.blas_rates import BlasReport, count_timings, measure_blas_rates, plan_rates
from hpcai.machine.hpl.input import HplTest
from hpcai.machine.hpl.library import BlasLibrary
from hpcai.machine.hpl.routines import STEP, Blas, Request, Timings, time_routine

LIBRARY = ctypes.util.find_library("blas")
with_blas = pytest.mark.skipif(LIBRARY is None, reason="no libblas.so.3 here; Debian package libblas3")


@pytest.fixture(autouse=True)
def own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests from waiting for a real measurement on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def timings(*durations: float, tried: int = 5) -> Timings:
    return Timings(durations_s=durations, cpu_ratio=0.99, tried=tried)


def test_shapes_shrink_with_the_remaining_matrix_and_are_shared_by_the_grid() -> None:
    plan = plan_rates([HplTest(order=4000, block=128), HplTest(order=4000, block=128, process_columns=4)])
    whole = [
        (rate.routine, rate.rows, rate.columns, rate.simultaneous) for rate in plan if rate.remaining_order == 4000
    ]
    assert whole == [
        ("dgemm", 4000, 2000, 1),
        ("dtrsm", 128, 2000, 1),
        ("panel", 4000, 128, 1),
        ("dlaswp", 4000, 2000, 1),
        ("dgemv", 4000, 4000, 1),
        ("dgemm", 4000, 1000, 4),
        ("dtrsm", 128, 1000, 4),
        ("panel", 4000, 128, 1),
        ("dlaswp", 4000, 1000, 4),
        ("dgemv", 4000, 1000, 4),
    ]
    assert {rate.leading_rows for rate in plan if rate.routine in STEP} == {4000}
    assert sorted({rate.remaining_order for rate in plan}) == [500, 1000, 2000, 3000, 4000]
    assert len(plan_rates([HplTest(order=4000, block=128)] * 2)) == 21


def test_a_panel_is_never_smaller_than_its_block() -> None:
    plan = plan_rates([HplTest(order=300, block=200, process_rows=2)])
    assert min(rate.rows for rate in plan if rate.routine == "panel") == 200


def test_median_and_best_are_over_all_processes() -> None:
    rate = plan_rates([HplTest(order=100, block=10)])[0]
    counted = count_timings(rate, 60.0, [timings(1.0, 2.0, 3.0), timings(2.0, 4.0, 6.0)])
    assert (counted.rate_flop_per_s, counted.best_flop_per_s, counted.n) == (60 / 2.5, 60.0, 6)
    assert counted.reason == ""
    moved = next(rate for rate in plan_rates([HplTest(order=100, block=10)]) if rate.routine == "dlaswp")
    counted = count_timings(moved, 60.0, [timings(1.0, 2.0, 3.0)])
    assert (counted.rate_bytes_per_s, counted.rate_flop_per_s) == (30.0, None)


def test_too_few_undisturbed_repetitions_are_no_rate() -> None:
    rate = plan_rates([HplTest(order=100, block=10)])[0]
    counted = count_timings(rate, 60.0, [timings(1.0, 1.0, 1.0), timings(1.0, tried=20)])
    assert counted.rate_flop_per_s is None
    assert "had their core to themselves" in counted.reason
    nodes = (Disturbance(node="here", cores=2, wall_s=10.0, others_s=4.0, steal_s=0.0),)
    frame = BlasReport(rates=(counted,), library="libblas", disturbance=nodes).frame("rates.json")
    assert frame[["quiet", "others_ratio"]].values.tolist() == [["disturbed", 0.2]]
    assert frame["rate_flop_per_s"].isna().all()
    assert frame["reason"].tolist() == [counted.reason]


def test_without_hpcc_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = measure_blas_rates([{"order": 100, "block": 10}])
    assert "Debian package hpcc" in report.reason
    frame = report.frame("rates.json")
    assert len(frame) == 21
    assert frame["rate_flop_per_s"].isna().all()
    assert set(frame["reason"]) == {report.reason}
    assert {"routine", "rows", "block", "rate_flop_per_s", "library", "method", "source", "reason"} <= set(
        frame.columns
    )


def test_work_is_counted_as_the_step_model_does() -> None:
    sizes = {"rows": 100, "columns": 30, "block": 10}
    assert Request(routine="dgemm", **sizes).work_flop == 2 * 100 * 30 * 10
    assert Request(routine="dtrsm", **sizes).work_flop == 10**2 * 30
    assert Request(routine="panel", **sizes).work_flop == pytest.approx(10**2 * 100 - 10**3 / 3)
    assert Request(routine="dlaswp", **sizes).work == 32 * 10 * 30
    assert Request(routine="dgemv", **sizes).work == 8 * 100 * 30


@with_blas
def test_routines_compute_what_their_names_say() -> None:
    blas, generator = Blas(str(LIBRARY)), np.random.default_rng(3)
    left, right = (np.asfortranarray(generator.random(shape)) for shape in ((40, 7), (7, 20)))
    result = np.asfortranarray(generator.random((40, 20)))
    expected = result - left @ right
    blas.update(left, right, result)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    triangle = np.asfortranarray(generator.random((7, 7)))
    solved = right.copy(order="F")
    blas.solve(triangle, solved)
    np.testing.assert_allclose(solved, solve_triangular(triangle, right, lower=True, unit_diagonal=True), rtol=1e-9)


@with_blas
def test_routines_of_a_step_work_on_parts_of_one_matrix() -> None:
    matrix = np.asfortranarray(np.random.default_rng(3).random((50, 27)))
    before, triangle = matrix.copy(), np.asfortranarray(np.random.default_rng(4).random((7, 7)) / 49)
    blas = Blas(str(LIBRARY))
    blas.solve(triangle, matrix[3:10, 7:])
    blas.update(matrix[10:, :7], matrix[3:10, 7:], matrix[10:, 7:])
    solved = solve_triangular(triangle, before[3:10, 7:], lower=True, unit_diagonal=True)
    np.testing.assert_allclose(matrix[3:10, 7:], solved, rtol=1e-9)
    np.testing.assert_allclose(matrix[10:, 7:], before[10:, 7:] - before[10:, :7] @ solved, rtol=1e-9)
    np.testing.assert_array_equal(matrix[:, :7], before[:, :7])
    np.testing.assert_array_equal(matrix[:3], before[:3])


@with_blas
def test_the_panel_is_the_factorisation_with_row_exchanges() -> None:
    panel = np.asfortranarray(np.random.default_rng(5).random((60, 60)))
    expected, exchanged = lu_factor(panel)
    pivots = Blas(str(LIBRARY)).factorise(panel)
    np.testing.assert_allclose(panel, expected, rtol=1e-8)
    assert pivots == exchanged.tolist()


@with_blas
def test_rows_are_exchanged_in_order_below_those_that_are_done() -> None:
    matrix = np.asfortranarray(np.random.default_rng(7).random((12, 5)))
    pivots = np.array([9, 3, 11], dtype=np.int32)
    expected = matrix.copy()
    for row, pivot in enumerate(pivots, start=2):
        expected[[row, pivot]] = expected[[pivot, row]]
    Blas(str(LIBRARY)).exchange(matrix, 2, pivots)
    np.testing.assert_array_equal(matrix, expected)


@with_blas
def test_a_product_with_a_vector_is_subtracted() -> None:
    generator = np.random.default_rng(8)
    matrix, vector, result = (np.asfortranarray(generator.random(shape)) for shape in ((9, 4), (4, 1), (9, 1)))
    expected = result - matrix @ vector
    Blas(str(LIBRARY)).multiply(matrix, vector, result)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@with_blas
def test_calls_without_work_leave_the_panel_as_it_is() -> None:
    panel = np.asfortranarray(np.random.default_rng(5).random((60, 20)) + 1)
    before = panel.copy()
    Blas(str(LIBRARY)).without_work().factorise(panel)
    np.testing.assert_array_equal(panel, before)


@with_blas
@pytest.mark.parametrize("routine", ["dgemm", "dtrsm", "panel", "dlaswp", "dgemv"])
def test_every_routine_is_timed(routine: str) -> None:
    request = Request.model_validate({"routine": routine, "rows": 128, "columns": 64, "block": 16, "leading_rows": 200})
    timed = time_routine(Blas(str(LIBRARY)), request)
    assert timed.tried >= len(timed.durations_s)
    assert timed.cpu_ratio > 0
    assert all(duration > 0 for duration in timed.durations_s)


@with_blas
def test_processes_measure_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary(str(LIBRARY), "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    report = measure_blas_rates([{"order": 64, "block": 16}])
    assert [rate.routine for rate in report.rates] == ["dgemm", "dtrsm", "panel", "dlaswp", "dgemv"]
    assert all((rate.rate_flop_per_s or rate.rate_bytes_per_s or 0) > 0 or rate.reason for rate in report.rates)


def test_more_processes_than_cores_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    report = measure_blas_rates([{"order": 64, "block": 16, "process_columns": 1000}])
    assert all("1000 processes" in rate.reason for rate in report.rates)


def test_the_table_has_its_declared_columns_in_their_order():
    assert tuple(BlasReport().frame("").columns) == columns_of("hpl_rates")
