"""Operations, bytes and shares of one step, corrected and printed (Hu and Lu 2021, eqs 2 to 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.predict.hpl.counts import (
    count_gemm_flop,
    count_host_link_bytes,
    count_network_bytes,
    count_panel_flop,
    count_reported_flop,
    count_trsm_flop,
    list_trailing_orders,
)
from hpcai.predict.hpl.variants import split_by_rates, split_step


def test_reported_operations():
    assert count_reported_flop(1000) == pytest.approx(668_166_666.667, rel=1e-9)
    assert count_reported_flop(88000.0) == pytest.approx(4.543262826667e14, rel=1e-9)


def test_the_printed_count_differs_by_3_over_4n():
    assert count_reported_flop(1000, "linpack") / count_reported_flop(1000) - 1 == pytest.approx(3 / 4000, rel=3e-3)


def test_sums_over_all_steps():
    m = list_trailing_orders(1024, 128)
    sums = [count(m, 128).sum() for count in (count_gemm_flop, count_trsm_flop, count_panel_flop)]
    assert sums == pytest.approx([587_202_560, 58_720_256, 69_905_066.667], rel=1e-9)
    assert sum(sums) == pytest.approx(715_827_882.667, rel=1e-9)


@given(st.integers(1, 200), st.integers(1, 200))
def test_steps_add_up_to_the_factorisation(block, steps):
    order = block * steps
    m = list_trailing_orders(order, block)
    parts = [count(m, block).sum() for count in (count_gemm_flop, count_trsm_flop, count_panel_flop)]
    assert sum(parts) == pytest.approx(2 / 3 * order**3, rel=1e-9)
    assert parts[0] == pytest.approx(2 / 3 * order**3 - order**2 * block + order * block**2 / 3, rel=1e-9, abs=1e-3)


def test_without_panel_and_solve_too_little_is_counted():
    order, block = 102_400, 256
    missing = 1 - count_gemm_flop(list_trailing_orders(order, block), block).sum() / (2 / 3 * order**3)
    assert missing == pytest.approx(1.5 * block / order, rel=3e-3)


def test_split_by_rates():
    assert split_by_rates(1.0, 8.0) == pytest.approx(0.888889, rel=1e-6)


def share_with_transfer(work, cpu, gpu, transfer_s):
    """Return the share R = G / (G + C) (1 - C t / W) for a transfer of known time (eq. 5 corrected), 0 to 1."""
    return min(max(split_by_rates(cpu, gpu) * (1 - cpu * transfer_s / work), 0.0), 1.0)


def test_split_with_transfer():
    work, cpu, gpu, transfer_s = 1e12, 1e12, 8e12, 0.01
    share = share_with_transfer(work, cpu, gpu, transfer_s)
    assert share == pytest.approx(0.88, rel=1e-9)
    assert share_with_transfer(work, cpu, gpu, 2.0) == 0
    # Both sides end together: the GPUs start when the transfer is over (eq. 4).
    busy_s = share * work / gpu
    assert cpu * (busy_s + transfer_s) + gpu * busy_s == pytest.approx(work, rel=1e-12)


def test_traffic():
    assert count_host_link_bytes(900, 100, 0.5) != count_host_link_bytes(1000, 100, 0.5)
    steps = list_trailing_orders(1000, 100)
    assert count_host_link_bytes(steps, 100, 0.5).sum() == pytest.approx(16_800_000, rel=1e-9)
    # Eq. 6 prints 64 in place of 8 for a double: 134,400,000 bit.


def test_both_ways_count_the_trailing_matrix_twice():
    extra = count_host_link_bytes(900, 100, 0.5, a22_both_ways=True) - count_host_link_bytes(900, 100, 0.5)
    assert extra == 8 * 900**2 * 0.5


def test_split_of_one_step():
    share = split_step(50000, 256, 2.39616e12, 1.0692e13, 32e9)
    assert share == pytest.approx(0.414153730522, rel=1e-9)


@given(st.floats(1, 1e5), st.floats(1, 1024), st.floats(1e11, 1e14), st.floats(1e11, 1e14), st.floats(1e9, 1e12))
def test_the_share_balances_both_sides(m, block, cpu, gpu, link):
    share = float(split_step(m, block, cpu, gpu, link))
    assert 0 <= share <= 1
    work, moved = count_gemm_flop(m, block), count_host_link_bytes(m, block, share)
    transfer_s = moved / link
    assert share == pytest.approx(share_with_transfer(work, cpu, gpu, transfer_s), rel=1e-6, abs=1e-12)
    if share > 0:
        assert (1 - share) * work / cpu == pytest.approx(share * work / gpu + transfer_s, rel=1e-6)


def test_a_last_step_without_rows_has_no_share_and_no_nan():
    assert split_step(0.0, 128.0, 1e12, 8e12, 32e9) == 0


def test_bytes_of_one_node():
    assert count_network_bytes(10000 - 10 * 200, 200, 4) == 3.2e6
