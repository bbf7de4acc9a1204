"""The ring allreduce: golden values of eq. 1, its printed form, messages, and links from measured lines."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.core.errors import ConfigError
from hpcai.metrics.profiles.link import LinkFit
from hpcai.predict.training.allreduce import Ring, count_message_parameters, derive_ring_link, ring_allreduce_s
from hpcai.predict.training.networks import build_network

MIB = 2**20


def _ring(ranks, link_bit_per_s=97.92e9):
    return Ring(ranks, latency_s=30e-6, link_bit_per_s=link_bit_per_s, peak_flop_per_s=14e12)


@pytest.mark.parametrize(
    ("size_bytes", "ranks", "time_s"),
    [
        (100 * MIB, 8, 1.5413534e-2),
        (100 * MIB, 6, 1.4579556e-2),
        (1024 * MIB, 8, 0.153953786),
        (512_000, 8, 4.932106e-4),
    ],
)
def test_golden_times(size_bytes, ranks, time_s):
    assert ring_allreduce_s(size_bytes, _ring(ranks)) == pytest.approx(time_s, rel=1e-6)


def test_the_printed_unit_of_the_measured_link_is_wrong_by_a_factor_of_eight():
    assert ring_allreduce_s(100 * MIB, _ring(8, 12.24e9)) == pytest.approx(0.1203568, rel=1e-6)


def test_the_printed_form_multiplies_where_it_should_divide():
    printed = ring_allreduce_s(1000, _ring(8), form="printed")
    assert printed == pytest.approx(14 * 30e-6 + 7 / 4 * 1000 * 12.24e9 + 7 / 8 * 1000 * 14e12)
    faster = Ring(8, 30e-6, 2 * 97.92e9, 14e12)
    assert ring_allreduce_s(1000, faster, form="printed") > printed
    assert ring_allreduce_s(1000, faster) < ring_allreduce_s(1000, _ring(8))


@pytest.mark.parametrize("form", ["corrected", "printed"])
def test_one_rank_exchanges_nothing(form):
    assert ring_allreduce_s(100 * MIB, _ring(1), form=form) == 0
    assert ring_allreduce_s(100 * MIB, Ring(1, math.nan, math.nan), form=form) == 0


def test_compression_shrinks_the_bytes_and_not_the_additions():
    whole, half = ring_allreduce_s(100 * MIB, _ring(8)), ring_allreduce_s(100 * MIB, _ring(8), compression_ratio=0.5)
    assert whole - half == pytest.approx(7 / 8 * 8 * 100 * MIB / 97.92e9)


def test_growth_with_ranks_comes_from_the_latency_alone():
    no_latency = ring_allreduce_s(100 * MIB, Ring(np.array([1000, 1_000_000]), 0.0, 1e11))
    assert no_latency[1] / no_latency[0] < 1.002


LATENCY_S, LINK_BIT_PER_S = st.floats(1e-7, 1e-2), st.floats(1e8, 1e12)


@given(LATENCY_S, LINK_BIT_PER_S, st.floats(1e9, 1e14), st.integers(2, 64), st.integers(1, 4096), st.floats(1, 1e9))
def test_a_line_fitted_to_a_ring_predicts_that_ring_at_other_ranks(latency_s, link, peak, measured, ranks, size_bytes):
    # A line through two times of the ring itself, then the ring from the line, adding included.
    true = Ring(measured, latency_s, link, peak)
    slope_s = float(ring_allreduce_s(1e9, true) - ring_allreduce_s(0.0, true)) / 1e9
    fit = LinkFit(float(ring_allreduce_s(0.0, true)), 0.0, 1 / slope_s, 0.0, n=2, misfit_ratio=0.0)
    derived = derive_ring_link(fit, measured)
    assert derived.latency_s == pytest.approx(latency_s, rel=1e-6)
    predicted_s = ring_allreduce_s(size_bytes, Ring(ranks, derived.latency_s, derived.link_bit_per_s))
    assert predicted_s == pytest.approx(
        float(ring_allreduce_s(size_bytes, Ring(ranks, latency_s, link, peak))), rel=1e-4
    )


def test_a_line_without_a_fit_gives_no_link_and_says_why():
    link = derive_ring_link(LinkFit(*[math.nan] * 4, n=2, misfit_ratio=math.nan, reason="2 message sizes"), 2)
    assert math.isnan(link.latency_s)
    assert math.isnan(link.link_bit_per_s)
    assert link.reason == "2 message sizes"


def test_one_rank_tells_nothing_of_a_link():
    with pytest.raises(ConfigError, match="2 ranks"):
        derive_ring_link(LinkFit(1e-3, 0.0, 1e9, 0.0, n=4, misfit_ratio=0.0), 1)


def test_messages_hold_weights_and_bias_and_normalisations_on_demand():
    layers = build_network("resnet50", "imagenet").layers
    assert count_message_parameters(layers).sum() == 25_557_032
    assert count_message_parameters(layers, batch_norm=False).sum() == 25_557_032 - 53_120
    assert np.count_nonzero(count_message_parameters(layers)) == 107
