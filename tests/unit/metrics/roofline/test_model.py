"""Formulas of the roofline, with the numbers of HPC AI500 V2.0 (performance_models.md, C.1 and C.2)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.metrics.roofline.model import (
    attainable_rate,
    communication_intensity,
    count_participants,
    ridge_point,
    ring_traffic,
)

POSITIVE = st.floats(1e-3, 1e18)
PARTICIPANTS = st.integers(2, 4096)
STEP_FLOP = 64 * 2944e9  # 64 devices, a batch of 128 images of 23 GFLOP each
MESSAGE_BYTES = 4 * 25e6
LINK_BYTES_PER_S = 1.2e9
PEAK_FLOP_PER_S = 64 * 120e12


def test_c07_intensities_of_table_5():
    assert communication_intensity(691e9, 41e6) == pytest.approx(16854, rel=1e-4)
    assert communication_intensity(2944e9, 25e6) == pytest.approx(117.76e3)
    assert communication_intensity(2944e9, 128e9) == pytest.approx(23)
    assert communication_intensity(691e9, 4 * 41e6) == pytest.approx(4213.4, rel=1e-5)
    assert communication_intensity(2944e9, 4 * 25e6) == pytest.approx(29440)


@pytest.mark.parametrize(
    ("peak", "bandwidth", "ridge"),
    [(1040e12, 300e9, 3466.7), (120e12, 300e9, 400), (960e12, 1.2e9, 8e5), (8320e12, 1.2e9, 6.933e6)],
)
def test_c12_ridge_points(peak, bandwidth, ridge):
    assert ridge_point(peak, bandwidth) == pytest.approx(ridge, rel=1e-4)


def test_the_distributed_roof_of_64_devices_holds_what_was_measured():
    intensity = communication_intensity(STEP_FLOP / 8, ring_traffic(MESSAGE_BYTES, 8))
    one_link = attainable_rate(PEAK_FLOP_PER_S, intensity, LINK_BYTES_PER_S)
    eight_links = attainable_rate(PEAK_FLOP_PER_S, intensity, LINK_BYTES_PER_S, 8)
    assert one_link == pytest.approx(161e12, rel=5e-3)
    assert eight_links == pytest.approx(1292e12, rel=1e-3)
    assert one_link < 345e12 < eight_links  # the text's single link would lie below the measured 345 TFLOP/s


@pytest.mark.parametrize(("participants", "share"), [(1, 0), (2, 1), (8, 1.75), (1e9, 2)])
def test_ring_traffic(participants, share):
    assert ring_traffic(1000, participants) == pytest.approx(1000 * share)


def test_without_traffic_only_the_peak_holds():
    assert communication_intensity(1e9, 0) == math.inf
    assert attainable_rate(1e12, math.inf, 1e9) == 1e12


@given(POSITIVE, POSITIVE, POSITIVE, PARTICIPANTS)
def test_what_is_attainable_is_below_both_roofs(peak, intensity, link, links):
    rate = attainable_rate(peak, intensity, link, links)
    assert rate <= peak
    assert rate <= links * link * intensity


@given(POSITIVE, st.floats(1, 1e12), PARTICIPANTS)
def test_the_roof_is_continuous_at_the_ridge(peak, link, links):
    ridge = ridge_point(peak, links * link)
    assert attainable_rate(peak, ridge, link, links) == pytest.approx(peak)
    assert attainable_rate(peak, ridge / 2, link, links) == pytest.approx(peak / 2)
    assert attainable_rate(peak, ridge * 2, link, links) == pytest.approx(peak)


@given(POSITIVE, st.floats(1, 1e12), PARTICIPANTS, st.floats(0.01, 100))
def test_intensity_scales_inversely_with_the_message(work, message, participants, factor):
    whole = communication_intensity(work, ring_traffic(message, participants))
    other = communication_intensity(work, ring_traffic(factor * message, participants))
    assert other == pytest.approx(whole / factor)


@given(POSITIVE, POSITIVE)
def test_doubling_the_link_halves_the_ridge(peak, bandwidth):
    assert ridge_point(peak, 2 * bandwidth) == pytest.approx(ridge_point(peak, bandwidth) / 2)


@given(POSITIVE, POSITIVE, POSITIVE, PARTICIPANTS)
def test_halved_traffic_gains_at_most_a_factor_of_two(peak, intensity, link, links):
    gain = attainable_rate(peak, 2 * intensity, link, links) / attainable_rate(peak, intensity, link, links)
    assert 1 <= gain <= 2 * (1 + 1e-12)


def test_nothing_known_gives_nothing():
    assert math.isnan(ring_traffic(math.nan, 2))
    assert math.isnan(communication_intensity(math.nan, 1))
    assert math.isnan(attainable_rate(math.nan, 1, 1))
    assert math.isnan(attainable_rate(1, math.nan, 1))
    assert math.isnan(ridge_point(1, math.nan))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ring_traffic(-1, 2), "message_bytes: found -1, expected"),
        (lambda: ring_traffic(1, 0.5), "participants: found 0.5, expected at least one"),
        (lambda: communication_intensity(0, 1), "work_flop: found 0, expected more than zero"),
        (lambda: communication_intensity(1, -1), "traffic_bytes: found -1"),
        (lambda: attainable_rate(0, 1, 1), "peak_flop_per_s"),
        (lambda: attainable_rate(1, 1, 1, 0), "links: found 0"),
        (lambda: ridge_point(1, 0), "bandwidth_bytes_per_s: found 0"),
    ],
)
def test_impossible_numbers_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nodes_exchange_over_a_network_and_ranks_elsewhere():
    assert count_participants("network", 2, 16) == 2
    assert [count_participants(scope, 2, 16) for scope in ("intra_node", "node", "memory")] == [16, 16, 16]
