"""Rates of BLAS routines: measured shapes, counting of repetitions, and the routines themselves."""

import ctypes.util
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import lu_factor, solve_triangular
from unit.machine.hpl.rate_factory import UPDATE, take_until_timed

from hpcai.catalogue.tables import columns_of
from hpcai.config.prediction import HplTest
from hpcai.core.disturbance import Disturbance, Tolerance
from hpcai.core.errors import LaunchError
from hpcai.machine.hpl import blas_rates, routines
from hpcai.machine.hpl.blas_rates import (
    NO_COMPILER,
    NO_HPL,
    TURNS,
    BlasRate,
    BlasReport,
    RatesInTurn,
    count_timings,
    plan_rates,
)
from hpcai.machine.hpl.library import BlasLibrary
from hpcai.machine.hpl.routines import (
    STEP,
    Blas,
    Request,
    Timings,
    compile_loops,
    count_work,
    slot_bytes,
    time_routines,
)

LIBRARY = ctypes.util.find_library("blas")
with_blas = pytest.mark.skipif(
    LIBRARY is None or shutil.which("cc") is None,
    reason="no libblas.so.3 here, Debian package libblas3, or no C compiler, cc",
)


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> str:
    """HPL's loops, compiled."""
    return compile_loops(tmp_path_factory.mktemp("loops"))


@pytest.fixture
def blas(loops: str) -> Blas:
    return Blas(str(LIBRARY), loops)


@pytest.fixture(autouse=True)
def own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests from waiting for a real measurement on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


ALL = ("dgemm", "dtrsm", "panel", "dlaswp", "dgemv")
TWO = [{"order": 64, "block": 16}, {"order": 96, "block": 16}]


def take_all(tests: list[dict[str, int]]) -> BlasReport:
    rates = RatesInTurn(tests)
    for test in tests:
        rates.take(HplTest.model_validate(test))
    return rates.report()


def timings(*durations: float, tried: int = 5) -> Timings:
    return Timings(durations_s=durations, cpu_ratio=0.99, tried=tried)


def test_shapes_shrink_with_the_remaining_matrix_and_are_shared_by_the_grid() -> None:
    wanted = [HplTest(order=4000, block=128), HplTest(order=4000, block=128, process_columns=4)]
    plan = [rate for test in wanted for rate in plan_rates(test)]
    whole = [
        (rate.routine, rate.rows, rate.columns, rate.simultaneous) for rate in plan if rate.remaining_order == 4000
    ]
    assert whole == [
        ("dgemm", 4000, 4000, 1),
        ("dtrsm", 128, 4000, 1),
        ("panel", 4000, 128, 1),
        ("dlaswp", 4000, 4000, 1),
        ("dgemv", 4000, 4000, 1),
        ("dgemm", 4000, 1000, 4),
        ("dtrsm", 128, 1000, 4),
        ("panel", 4000, 128, 1),
        ("dlaswp", 4000, 1000, 4),
        ("dgemv", 4000, 1000, 4),
    ]
    assert {rate.leading_rows for rate in plan if rate.routine in STEP} == {4000}
    assert sorted({rate.remaining_order for rate in plan}) == [500, 1000, 2000, 3000, 4000]
    assert {rate.order for rate in plan} == {4000}
    assert len(plan_rates(HplTest(order=4000, block=128))) == 21
    assert len(plan_rates(HplTest(order=100, block=100))) == 5  # each shape once


def test_a_panel_is_never_smaller_than_its_block() -> None:
    plan = plan_rates(HplTest(order=300, block=200, process_rows=2))
    assert min(rate.rows for rate in plan if rate.routine == "panel") == 200


def test_the_slowest_process_of_each_repetition_counts() -> None:
    rate = plan_rates(HplTest(order=100, block=10, process_columns=2))[0]
    work = 2.0 * 100 * 50 * 10
    counted = count_timings(rate, [timings(1.0, 2.0, 3.0), timings(2.0, 4.0, 6.0)])
    assert (counted.rate_flop_per_s, counted.best_flop_per_s, counted.n) == (work / 4.0, work, 6)
    crossed = count_timings(rate, [timings(1.0, 2.0, 3.0), timings(2.0, 1.0, 6.0), *[timings(2.5)] * 2])
    assert crossed.rate_flop_per_s == work / 2.25
    assert counted.reason == ""
    moved = next(rate for rate in plan_rates(HplTest(order=100, block=10)) if rate.routine == "dlaswp")
    counted = count_timings(moved, [timings(1.0, 2.0, 3.0)])
    assert (counted.rate_bytes_per_s, counted.rate_flop_per_s) == (32.0 * 10 * 100 / 2, None)


def test_too_few_undisturbed_repetitions_are_no_rate() -> None:
    rate = plan_rates(HplTest(order=100, block=10, process_columns=2))[0]
    counted = count_timings(rate, [timings(1.0, 1.0, 1.0), timings(1.0, tried=20)])
    assert counted.rate_flop_per_s is None
    assert "had their core to themselves" in counted.reason
    assert count_timings(rate, [timings(1.0)] * 6).rate_flop_per_s  # of several turns
    assert count_timings(rate, [timings(*[1.0] * 9), timings(1.0)] * 2).rate_flop_per_s is None
    nodes = (Disturbance(node="here", cores=2, wall_s=10.0, others_s=4.0, steal_s=0.0),)
    frame = BlasReport(rates=(counted,), library="libblas", disturbance=nodes).frame("rates.json")
    assert frame[["quiet", "others_ratio"]].values.tolist() == [["disturbed", 0.2]]
    assert frame["rate_flop_per_s"].isna().all()
    assert frame["reason"].tolist() == [counted.reason]


def test_without_hpcc_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = take_all([{"order": 100, "block": 10}])
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
    assert count_work("dgemm", **sizes) == 2 * 100 * 30 * 10
    assert count_work("dtrsm", **sizes) == 10**2 * 30
    assert count_work("panel", **sizes) == pytest.approx(10**2 * 100 - 10**3 / 3)
    assert count_work("dlaswp", **sizes) == 32 * 10 * 30
    assert count_work("dgemv", **sizes) == 8 * 100 * 30


@with_blas
def test_routines_compute_what_their_names_say(blas: Blas) -> None:
    generator = np.random.default_rng(3)
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
def test_routines_of_a_step_work_on_parts_of_one_matrix(blas: Blas) -> None:
    matrix = np.asfortranarray(np.random.default_rng(3).random((50, 27)))
    before, triangle = matrix.copy(), np.asfortranarray(np.random.default_rng(4).random((7, 7)) / 49)
    blas.solve(triangle, matrix[3:10, 7:])
    blas.update(matrix[10:, :7], matrix[3:10, 7:], matrix[10:, 7:])
    solved = solve_triangular(triangle, before[3:10, 7:], lower=True, unit_diagonal=True)
    np.testing.assert_allclose(matrix[3:10, 7:], solved, rtol=1e-9)
    np.testing.assert_allclose(matrix[10:, 7:], before[10:, 7:] - before[10:, :7] @ solved, rtol=1e-9)
    np.testing.assert_array_equal(matrix[:, :7], before[:, :7])
    np.testing.assert_array_equal(matrix[:3], before[:3])


@with_blas
@pytest.mark.parametrize("block", [60, 30])
def test_the_panel_is_the_factorisation_with_row_exchanges(blas: Blas, block: int) -> None:
    panel, upper = (np.asfortranarray(np.random.default_rng(5).random((rows, block))) for rows in (60, block))
    expected, exchanged = lu_factor(panel)
    assert blas.factorise(panel, upper).tolist() == exchanged.tolist()
    np.testing.assert_allclose(upper, expected[:block], rtol=1e-8)
    np.testing.assert_allclose(panel[block:], expected[block:], rtol=1e-8)


@with_blas
def test_processes_factorise_one_panel_together(loops: str, tmp_path: Path) -> None:
    """Both have its upper block, and the rows below are those of the factorisation, wherever they lie."""
    block, rows, slots = 30, (47, 41), tmp_path / "slots"
    slots.write_bytes(bytes(2 * slot_bytes(block)))
    both = [Blas(str(LIBRARY), loops, str(slots), place) for place in (0, 1)]
    for seed in (6, 7):
        whole = np.random.default_rng(seed).random((sum(rows), block))
        panels = [np.asfortranarray(part) for part in np.split(whole, rows[:1])]
        uppers = [np.zeros((block, block), order="F") for _ in both]
        with ThreadPoolExecutor() as threads:
            list(threads.map(Blas.factorise, both, panels, uppers, (2, 2)))
        expected = lu_factor(whole)[0]
        for upper in uppers:
            np.testing.assert_allclose(upper, expected[:block], rtol=1e-8)
        below = np.vstack([panels[0][block:], panels[1]])
        np.testing.assert_allclose(np.sort(below, axis=0), np.sort(expected[block:], axis=0), rtol=1e-8)


@with_blas
def test_a_process_does_not_wait_for_ever_for_the_others_of_its_panel(loops: str, tmp_path: Path) -> None:
    block, slots = 8, tmp_path / "slots"
    slots.write_bytes(bytes(2 * slot_bytes(block)))
    alone = Blas(str(LIBRARY), loops, str(slots), patience_s=0.05)
    panel, upper = (np.asfortranarray(np.random.default_rng(8).random((rows, block))) for rows in (20, block))
    with pytest.raises(LaunchError):
        alone.factorise(panel, upper, processes=2)


@with_blas
def test_rows_are_exchanged_in_order_below_those_that_are_done(blas: Blas) -> None:
    matrix = np.asfortranarray(np.random.default_rng(7).random((12, 75)))
    pivots = np.array([9, 3, 11], dtype=np.int32)
    expected = matrix.copy()
    for row, pivot in enumerate(pivots, start=2):
        expected[[row, pivot]] = expected[[pivot, row]]
    blas.exchange(matrix, 2, pivots)
    np.testing.assert_array_equal(matrix, expected)


@with_blas
def test_rows_change_places_with_those_of_two_processes(blas: Blas) -> None:
    """The block's rows and U together are what they were, and U has the pivots of both processes, in its order."""
    block, columns, first = 4, 75, 2
    generator = np.random.default_rng(11)
    matrix, upper = (np.asfortranarray(generator.random((rows, columns))) for rows in (first + 12, block))
    before = matrix.copy()
    before[first : first + block] = upper  # of the last step
    order = np.array([2, 1, 3, 3], dtype=np.int32)
    places = np.array([5, 11, 7, 9, *order], dtype=np.int32)
    blas.share(matrix, first, upper, places)
    after = before.copy()
    slots = before[[first + 5, first + 11, first + 9, first + 7]]
    after[[first + 5, first + 11, first + 9, first + 7]] = before[first : first + block]
    for row, other in enumerate(order):
        slots[[row, other]] = slots[[other, row]]
    np.testing.assert_array_equal(matrix, after)
    np.testing.assert_array_equal(upper, slots)


@with_blas
def test_with_several_process_rows_solve_and_update_work_on_copies(blas: Blas) -> None:
    request = Request(routines=STEP, rows=48, columns=32, block=8, leading_rows=64, remaining_rows=40, process_rows=2)
    assert set(time_routines(blas, request).root) == set(STEP)


def test_the_method_says_what_several_process_rows_do() -> None:
    one, two = (
        BlasReport(rates=tuple(plan_rates(HplTest(order=64, block=16, process_rows=rows)))).frame("r")
        for rows in (1, 2)
    )
    differ = one["method"] != two["method"]
    assert set(one["routine"][differ]) == {"panel", "dlaswp"}


def test_without_a_compiler_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    monkeypatch.setenv("PATH", str(tmp_path))
    report = take_all(TWO)
    assert report.reason == NO_COMPILER()
    assert {rate.reason for rate in report.rates} == {NO_COMPILER()}


@pytest.mark.parametrize("status", [0, 1], ids=["makes nothing", "fails"])
def test_what_cannot_be_compiled_or_loaded_is_no_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int
) -> None:
    (tmp_path / "cc").write_text(f"#!/bin/sh\nexit {status}\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compile_loops(tmp_path) == ""


@with_blas
def test_a_product_with_a_vector_is_subtracted(blas: Blas) -> None:
    generator = np.random.default_rng(8)
    matrix, vector, result = (np.asfortranarray(generator.random(shape)) for shape in ((9, 4), (4, 1), (9, 1)))
    expected = result - matrix @ vector
    blas.multiply(matrix, vector, result)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@with_blas
@pytest.mark.parametrize("asked", [STEP, ("panel",), ("dgemv",)], ids=lambda names: names[0])
def test_every_routine_is_timed(blas: Blas, asked: tuple[str, ...]) -> None:
    sizes = {"rows": 128, "columns": 64, "block": 16, "leading_rows": 200}
    answer = time_routines(blas, Request.model_validate({"routines": asked, **sizes})).root
    assert tuple(answer) == asked
    for timed in answer.values():
        assert timed.tried >= len(timed.durations_s)
        assert timed.cpu_ratio > 0
        assert all(duration > 0 for duration in timed.durations_s)


def test_preparing_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def lasts(seconds: float) -> Callable[[], None]:
        return lambda: now.append(now[-1] + seconds)

    clock = SimpleNamespace(perf_counter=lambda: now[-1], process_time=lambda: now[-1] / 2)
    monkeypatch.setattr(routines, "time", clock)
    assert routines._Call(lasts(3.0), lasts(10.0)).spend().tolist() == [3.0, 1.5]
    assert routines._Call(lasts(3.0)).spend().tolist() == [3.0, 1.5]


@with_blas
@pytest.mark.parametrize("grid", ["process_columns", "process_rows"])
def test_processes_measure_together(monkeypatch: pytest.MonkeyPatch, grid: str) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary(str(LIBRARY), "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0, 0.5))
    report = take_until_timed({"order": 64, "block": 16, grid: 2})
    assert [rate.routine for rate in report.rates] == [*ALL, *ALL[:4]]
    assert all(rate.rate_flop_per_s for rate in report.rates if rate.routine in UPDATE)
    assert all((rate.rate_flop_per_s or rate.rate_bytes_per_s or 0) > 0 or rate.reason for rate in report.rates)
    counted = [rate for rate in report.rates if not rate.reason]
    assert all(rate.n >= 3 * rate.simultaneous for rate in counted)
    (node,) = report.disturbance
    assert node.wall_s > 0


def test_more_processes_than_cores_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    report = take_all([{"order": 64, "block": 16, "process_columns": 1000}])
    assert all("1000 processes" in rate.reason for rate in report.rates)


def test_each_test_has_turns_of_its_own_and_all_of_them_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    node = Disturbance(node="here", cores=2, wall_s=1.0, others_s=0.5, steal_s=0.0)
    speeds = iter([1.0, 2.0, 3.0, 4.0])

    def time_all(plan: list[BlasRate], *_: object) -> object:
        seconds = next(speeds)
        return blas_rates._Turn({rate: [timings(*[seconds] * 3)] for rate in plan}, (node,))

    monkeypatch.setattr(blas_rates, "_time_all", time_all)
    rates = RatesInTurn(TWO, Tolerance(others_ratio=0.5))
    assert TURNS == 2
    for _ in range(2):
        rates.take(HplTest.model_validate(TWO[0]))
    report = rates.report()
    first, last = report.rates[0], report.rates[-1]
    assert (first.order, first.n, first.rate_flop_per_s) == (64, 12, 2.0 * 64 * 64 * 16 / 2.5)
    assert (last.order, last.rate_bytes_per_s, last.reason) == (96, None, NO_HPL())
    assert report.disturbance == (node.model_copy(update={"wall_s": 4.0, "others_s": 2.0}),)


def test_a_process_that_ends_makes_no_rate_and_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    monkeypatch.setattr(blas_rates, "PARTS", (1.0,))
    report = take_all([TWO[0]])
    assert {rate.n for rate in report.rates} == {0}
    assert all(rate.reason.startswith("not measured: a process that measures") for rate in report.rates)


def test_a_disturbed_turn_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_rates, "find_blas", lambda: BlasLibrary("/nowhere", "libblas"))
    node = Disturbance(node="here", cores=2, wall_s=1.0, others_s=1.0, steal_s=0.0)
    turns = iter([(1.0, node), *[(2.0, node.model_copy(update={"others_s": 0.0}))] * TURNS])

    def time_all(plan: list[BlasRate], *_: object) -> object:
        seconds, use = next(turns)
        return blas_rates._Turn({rate: [timings(*[seconds] * 3)] for rate in plan}, (use,))

    monkeypatch.setattr(blas_rates, "_time_all", time_all)
    rates = RatesInTurn(TWO[:1])
    rates.take(HplTest.model_validate(TWO[0]))
    assert rates.report().rates[0].best_flop_per_s == 2.0 * 64 * 64 * 16 / 2.0


def test_the_table_has_its_declared_columns_in_their_order():
    assert tuple(BlasReport().frame("").columns) == columns_of("hpl_rates")
