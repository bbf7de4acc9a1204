"""Learning rates against the values of the reference (MLPerf HPC, cosmoflow/utils/optimizers.py)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.training.schedules import scaled_rate, warmup_and_decay, warmup_and_line

GOLDEN = {0: 0.001, 1: 0.00275, 2: 0.0045, 3: 0.00625, 4: 0.008, 32: 0.008, 33: 0.002, 64: 0.002, 65: 0.001, 127: 0.001}


@pytest.mark.parametrize(("epoch", "expected"), GOLDEN.items())
def test_reference_schedule_at_global_batch_512(epoch: int, expected: float) -> None:
    peak = scaled_rate(0.001, 512, 64, "linear")
    rate = warmup_and_decay(epoch, 0.001, peak, 4, [(32, 0.25), (64, 0.125)])
    assert rate == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("scaling", "expected"), [("linear", 0.004), ("sqrt", 0.002), ("none", 0.001)])
def test_scaling_of_the_peak(scaling: str, expected: float) -> None:
    assert scaled_rate(0.001, 256, 64, scaling) == pytest.approx(expected)  # type: ignore[arg-type]


def test_without_warmup_the_first_epoch_has_the_peak() -> None:
    assert warmup_and_decay(0, 0.001, 0.008, 0, []) == 0.008


@given(epoch=st.integers(0, 200), warmup=st.integers(0, 20), peak=st.floats(0.001, 1.0))
def test_rate_stays_between_base_and_peak_until_it_decays(epoch: int, warmup: int, peak: float) -> None:
    rate = warmup_and_decay(epoch, 0.001, peak, warmup, [(100, 0.5)])
    low, high = (0.001, peak) if epoch <= 100 else (peak / 2, max(peak, 0.001))
    assert low - 1e-12 <= rate <= high + 1e-12


def test_a_line_from_the_peak_to_zero_after_the_last_epoch() -> None:
    rates = [warmup_and_line(epoch, 0.001, 0.008, 2, 10) for epoch in range(11)]
    assert rates[:3] == pytest.approx([0.001, 0.0045, 0.008])
    assert rates[10] == 0
    steps = {round(before - after, 12) for before, after in pairwise(rates[2:])}
    assert steps == {0.001}
    assert warmup_and_line(0, 0.001, 0.008, 0, 4) == 0.008
