"""Predictions of own HPL runs from measured rates, against sums written out here and published measurements."""

from collections.abc import Hashable

import numpy as np
import pandas as pd
import pytest

from hpcai.core.messages import Message
from hpcai.machine.hpl.routines import MOVERS
from hpcai.predict.hpl_validation import (
    NO_RATES,
    OTHER_LIBRARY,
    PARTS,
    UNKNOWN_LIBRARY,
    ProcessRates,
    average_rates,
    part_times,
    predict_time_s,
    validate_hpl,
)

GEMM, TRSM, PANEL = 56.4e9, 42e9, 39.6e9
EXCHANGE, READ, MESSAGES = 2.5e9, 10e9, 14e9
LIBRARY = "libopenblas.so.0 (OpenBLAS 0.3.26)"
MODELS = ["all parts", "three rates", "GEMM only", "credited / GEMM rate"]


def rates(**changes: float) -> pd.DataFrame:
    """Rates of a test of N = 8000, NB = 192, the same for all orders unless changed."""
    values = {"dgemm": GEMM, "dtrsm": TRSM, "panel": PANEL, "dlaswp": EXCHANGE, "dgemv": READ, **changes}
    return pd.DataFrame(
        [
            {
                "library": LIBRARY,
                "routine": routine,
                "order": 8000,
                "remaining_order": order,
                "block": 192,
                "process_rows": rows,
                "process_columns": columns,
                "rate_flop_per_s": float("nan") if routine in MOVERS else rate,
                "rate_bytes_per_s": rate if routine in MOVERS else float("nan"),
            }
            for routine, rate in values.items()
            for order in (1000, 8000)
            for rows, columns in ((1, 1), (1, 2), (2, 1))
        ]
    )


def run(**changes: object) -> pd.DataFrame:
    row: dict[str, object] = {
        "order": 8000, "block": 192, "process_rows": 1, "process_columns": 1, "attempt": 1, "n": 1,
        "measured_time_s": 6.295, "measured_rate_flop_per_s": 5.4e10, "spread_ratio": float("nan"),
        "residual": 0.002, "threshold": 16.0, "verdict": "passed",
        "cpu_ratio": 0.995, "steal_ratio": 0.0, "message_rate_bytes_per_s": MESSAGES,
        "accepted": True, "reason": "", "source": "hpl_run.json",
        "library": LIBRARY,
    }  # fmt: skip
    return pd.DataFrame([{**row, **changes}])


def predicted(process_rows: int, process_columns: int, table: pd.DataFrame) -> dict[str, float]:
    found = validate_hpl(run(process_rows=process_rows, process_columns=process_columns), table)
    return dict(zip(found["model"], found["predicted_time_s"], strict=True))


def test_one_process_gives_the_golden_times() -> None:
    times = predicted(1, 1, rates())
    assert times["GEMM only"] == pytest.approx(5.835883, abs=1e-6)
    assert times["three rates"] == pytest.approx(6.135010, abs=1e-6)
    assert times["credited / GEMM rate"] == pytest.approx((2 / 3 * 8000**3 + 1.5 * 8000**2) / GEMM, rel=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (2, 1)])
def test_grids_share_the_solve_by_columns_and_the_panel_by_rows(rows: int, columns: int) -> None:
    expected = 0.0
    for step in range(1, 8000 // 192 + 1):
        m = 8000 - step * 192
        expected += 2 * 192 * m**2 / (rows * columns * GEMM)
        expected += 192**2 * m / (columns * TRSM)
        expected += (192**2 * (m + 192) - 192**3 / 3) / (rows * PANEL)
    assert predicted(rows, columns, rates())["three rates"] == pytest.approx(expected, rel=1e-9)


def dealt(size: int, processes: int) -> int:
    """Deal blocks to processes in turn, until none is left; return what the first one has."""
    blocks = [min(192, size - start) for start in range(0, size, 192)]
    return sum(blocks[::processes])


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1)])
def test_parts_are_those_of_the_process_that_all_wait_for(rows: int, columns: int) -> None:
    expected = dict.fromkeys(PARTS, 0.0) | {"substitution_s": 4 * 8000**2 / (rows * columns * READ)}
    for step in range(1, 8000 // 192 + 1):
        m = 8000 - step * 192
        wide, panel = dealt(m, columns), dealt(m + 192, rows)
        expected["update_s"] += 2 * 192 * dealt(m, rows) * wide / GEMM
        expected["solve_s"] += 192**2 * wide / TRSM
        expected["panel_s"] += (192**2 * panel - 192**3 / 3) / PANEL
        expected["exchange_s"] += 32 * 192 * wide / EXCHANGE + 16 * 192 * wide * (rows - 1) / rows / MESSAGES
        expected["broadcast_s"] += 8 * 192 * panel / MESSAGES if columns > 1 else 0
    found = validate_hpl(run(process_rows=rows, process_columns=columns), rates()).set_index("model")
    times = found["predicted_time_s"]
    assert found.loc["all parts", list(PARTS)].to_dict() == pytest.approx(expected, rel=1e-9)
    assert found.loc["all parts", list(PARTS)].sum() == pytest.approx(times["all parts"], rel=1e-12)
    assert found.loc["three rates", list(PARTS)].isna().all()
    assert (found.loc["all parts", "broadcast_s"] == 0) == (columns == 1)


def test_one_process_pays_for_movement_beside_the_three_rates() -> None:
    times = validate_hpl(run(), rates()).set_index("model")["predicted_time_s"]
    moved_s = 4 * 8000**2 / READ + sum(32 * 192 * (8000 - step * 192) for step in range(1, 42)) / EXCHANGE
    assert times["all parts"] - times["three rates"] == pytest.approx(moved_s, rel=1e-9)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_a_grid_of_columns_takes_as_long_as_its_columns_that_wait_for_panels(columns: int) -> None:
    """Each column starts an update when it has the panel, whose column factorises it after its own last update."""
    order, block = 40 * 192, 192
    blocks, ready, done = order // block, 0.0, [0.0] * columns
    for step in range(blocks):
        owner = step % columns
        ready = done[owner] + (block**2 * (order - step * block) - block**3 / 3) / PANEL
        for column in range(columns):
            mine = sum(1 for other in range(step + 1, blocks) if other % columns == column)
            m = order - (step + 1) * block
            done[column] = max(done[column], ready) + 2 * block * m * mine * block / GEMM
    shape: dict[Hashable, int] = {"order": order, "block": block, "process_rows": 1, "process_columns": columns}
    parts = part_times({**shape, "message_rate_bytes_per_s": MESSAGES}, ProcessRates(GEMM, TRSM, PANEL, EXCHANGE, READ))
    assert parts["update_s"] + parts["panel_s"] == pytest.approx(max(done), rel=1e-12)


def test_a_grid_without_a_known_message_rate_is_not_predicted_by_its_parts() -> None:
    found = validate_hpl(run(process_columns=2, message_rate_bytes_per_s=float("nan")), rates()).set_index("model")
    assert np.isnan(found.loc["all parts", "predicted_time_s"])
    assert NO_RATES() in found.loc["all parts", "reason"]
    assert np.isfinite(found.loc["three rates", "predicted_time_s"])


def test_rates_are_interpolated_over_the_order() -> None:
    table = rates()
    slow = (table["routine"] == "dgemm") & (table["remaining_order"] == 1000)
    table.loc[slow, "rate_flop_per_s"] = GEMM / 2
    m = 8000.0 - 192 * np.arange(1, 42)
    rate = np.where(m < 1000, GEMM / 2, GEMM / 2 + GEMM / 2 * (m - 1000) / 7000)
    expected = float((2 * 192 * m**2).sum() / (2 * 192 * m**2 / rate).sum())
    assert average_rates(8000, 192, 1, 1, table).gemm == pytest.approx(expected, rel=1e-12)
    assert average_rates(8000, 192, 1, 1, table).trsm == pytest.approx(TRSM)


def test_rates_of_the_turns_of_a_test_are_its_own() -> None:
    others = rates(dgemm=GEMM / 3).assign(order=1000)
    both = pd.concat([rates(), others])
    assert average_rates(8000, 192, 1, 1, both).gemm == pytest.approx(GEMM)
    assert average_rates(1000, 192, 1, 1, both).gemm == pytest.approx(GEMM / 3)
    # Files of earlier versions do not name the test.
    assert average_rates(8000, 192, 1, 1, rates().assign(order=0)).gemm == pytest.approx(GEMM)


def test_error_and_goal_are_stated_for_every_run_and_model() -> None:
    found = validate_hpl(run(), rates())
    assert list(found["model"]) == MODELS
    assert list(found["error_ratio"])[1:] == pytest.approx([-0.0254, -0.0729, -0.0384], abs=1e-3)
    assert list(found["within_goal"])[1:] == [True, False, True]
    assert list(validate_hpl(run(), rates(), goal_ratio=0.10)["within_goal"])[1:] == [True, True, True]
    assert found["method"].str.startswith("modelled").all()


def test_a_run_that_is_not_accepted_has_no_verdict() -> None:
    found = validate_hpl(run(accepted=False, reason="the cores were shared"), rates())
    assert found["within_goal"].isna().all()
    assert set(found["reason"]) == {"the cores were shared"}
    assert found["error_ratio"].notna().all()


def test_unknown_rates_predict_nothing_and_say_so() -> None:
    parts, three, update, _ = validate_hpl(run(), rates(panel=float("nan"))).to_dict("records")
    assert np.isnan(three["predicted_time_s"])
    assert NO_RATES() in three["reason"]
    assert np.isnan(parts["predicted_time_s"])
    assert update["predicted_time_s"] == pytest.approx(5.835883, abs=1e-6)
    other_block = validate_hpl(run(block=128), rates())
    assert other_block["predicted_time_s"].isna().all()
    assert other_block["within_goal"].isna().all()


@pytest.mark.parametrize(("library", "message"), [("", UNKNOWN_LIBRARY), ("libblis.so.4 (BLIS 1.0)", OTHER_LIBRARY)])
def test_rates_of_another_library_predict_nothing(library: str, message: Message) -> None:
    for table in (rates(), pd.concat([rates(), rates(dgemm=GEMM / 3).assign(library="libother")])):
        found = validate_hpl(run(library=library), table)
        assert found["predicted_time_s"].isna().all()
        assert all(message.find_in(reason) is not None for reason in found["reason"])
    mixed = pd.concat([rates(dgemm=GEMM / 3).assign(library="libother"), rates()])
    assert predicted(1, 1, mixed) == predicted(1, 1, rates())


def test_a_run_that_failed_to_start_keeps_its_reason() -> None:
    missing = run(measured_time_s=float("nan"), accepted=False, reason="not measured: no hpcc", verdict="not measured")
    found = validate_hpl(missing, rates())
    assert found["error_ratio"].isna().all()
    assert set(found["reason"]) == {"not measured: no hpcc"}


def test_nothing_measured_gives_an_empty_table_with_its_columns() -> None:
    found = validate_hpl(run().iloc[:0], rates().iloc[:0])
    assert found.empty
    assert {"model", "predicted_time_s", "within_goal"} <= set(found.columns)


def test_the_remainder_of_the_order_is_left_out() -> None:
    shape: dict[Hashable, int] = {"order": 8000, "block": 192, "process_rows": 1, "process_columns": 1}
    average = average_rates(8000, 192, 1, 1, rates())
    shorter = predict_time_s("GEMM only", shape, average)
    assert shorter == pytest.approx(sum(2 * 192 * (8000 - k * 192) ** 2 for k in range(1, 42)) / GEMM, rel=1e-9)
