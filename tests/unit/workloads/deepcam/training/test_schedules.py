"""Learning rates against values counted by hand, and against the reference's recursion."""

import math
from collections import Counter

import pytest

from hpcai.workloads.deepcam.training.schedules import WarmUp, cosine_rate, multistep_rate

NONE = WarmUp(0)


def multistep(step: int, warm_up: WarmUp = NONE, milestones: tuple[int, ...] = (8, 12)) -> float:
    return multistep_rate(step, 1.0, warm_up, milestones, 0.1)


def test_without_warm_up_the_counter_begins_at_1() -> None:
    assert [multistep(step) for step in (0, 6)] == [1, 1]
    # Update 8 is step 7.
    assert [multistep(step) for step in (7, 10)] == pytest.approx([0.1, 0.1])
    assert [multistep(step) for step in (11, 99)] == pytest.approx([0.01, 0.01])


def test_warm_up_grows_from_the_first_share_and_stops_below_the_peak() -> None:
    rates = [multistep(step, WarmUp(4)) for step in range(6)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 0.75, 0.75, 0.75])


def test_milestones_wait_for_the_warm_up_and_one_step_more() -> None:
    # Counter 8 + 4 + 1 = 13 is step 12; 12 + 4 + 1 = 17 is step 16.
    rates = {step: multistep(step, WarmUp(4)) for step in (11, 12, 15, 16)}
    assert rates == pytest.approx({11: 0.75, 12: 0.075, 15: 0.075, 16: 0.0075})


def test_a_factor_above_1_grows_from_the_base() -> None:
    rates = [multistep(step, WarmUp(4, 3.0)) for step in range(5)]
    assert rates == pytest.approx([1.5, 2.0, 2.5, 2.5, 2.5])


def test_the_published_recipe() -> None:
    warm_up, base = WarmUp(400), 0.0055
    rates = [multistep_rate(step, base, warm_up, (800,), 0.1) for step in (0, 398, 399, 1199, 1200)]
    peak = base * 399 / 400
    assert rates == pytest.approx([base / 400, peak, peak, peak, peak / 10])


def test_a_warm_up_of_one_step_changes_nothing_but_the_milestones() -> None:
    assert [multistep(step, WarmUp(1)) for step in (0, 8, 9)] == pytest.approx([1, 1, 0.1])


def test_cosine_without_warm_up_begins_at_the_base() -> None:
    rates = [cosine_rate(step, 1.0, NONE, 4, 0.2) for step in range(9)]
    diagonal = 0.4 * math.sqrt(0.5)
    descent = [1.0, 0.6 + diagonal, 0.6, 0.6 - diagonal]
    assert rates == pytest.approx([*descent, 0.2, *reversed(descent)])


def test_cosine_after_a_warm_up_descends_from_what_is_left_of_it() -> None:
    # Counter 1, 2, 3 of 4: 1/4, 2/4, 3/4; then from 3/4 over 4 steps to 0.
    rates = [cosine_rate(step, 1.0, WarmUp(4), 4, 0.0) for step in range(8)]
    descent = [0.75 * (1 + math.cos(math.pi * elapsed / 4)) / 2 for elapsed in range(5)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, *descent], abs=1e-15)


def test_the_recipe_of_the_smallest_reference_point() -> None:
    """RCP 128: cosine of 9000 steps without warm-up from 0.00155."""
    rates = [cosine_rate(step, 0.00155, NONE, 9000, 0.0) for step in (0, 3000, 4500, 9000)]
    assert rates == pytest.approx([0.00155, 0.0011625, 0.000775, 0.0], abs=1e-15)


def reference_multistep(steps: int, base: float, warm_up: WarmUp, milestones: tuple[int, ...], gamma: float) -> list:
    """schedulers.py and torch.optim.lr_scheduler.MultiStepLR: each rate from the one before."""
    delay = warm_up.steps + 1 if warm_up.steps else 0
    decays = Counter(milestone + delay for milestone in milestones)
    rates, rate = [], base
    for counter in range(1, steps + 1):
        if counter < warm_up.steps:
            slope = 1.0 if warm_up.factor == 1 else warm_up.factor - 1
            rate = base * (slope * counter / warm_up.steps + (warm_up.factor != 1))
        else:
            rate *= gamma ** decays[counter]
        rates.append(rate)
    return rates


def reference_cosine(steps: int, base: float, warm_up: WarmUp, t_max: int, eta_min: float) -> list:
    """schedulers.py and torch.optim.lr_scheduler.CosineAnnealingLR: each rate from the one before."""
    rates, rate = [], base
    first = 1 if warm_up.steps else 0
    for counter in range(first, steps + first):
        elapsed = counter - warm_up.steps
        if counter < warm_up.steps:
            slope = 1.0 if warm_up.factor == 1 else warm_up.factor - 1
            rate = base * (slope * counter / warm_up.steps + (warm_up.factor != 1))
        elif elapsed > 0 and (elapsed - 1 - t_max) % (2 * t_max) == 0:
            rate += (base - eta_min) * (1 - math.cos(math.pi / t_max)) / 2
        elif elapsed > 0:
            ratio = (1 + math.cos(math.pi * elapsed / t_max)) / (1 + math.cos(math.pi * (elapsed - 1) / t_max))
            rate = ratio * (rate - eta_min) + eta_min
        rates.append(rate)
    return rates


@pytest.mark.parametrize("warm_up", [NONE, WarmUp(1), WarmUp(5), WarmUp(5, 2.5)])
@pytest.mark.parametrize("milestones", [(), (1,), (3, 7, 20)])
def test_multistep_is_the_reference_recursion(warm_up: WarmUp, milestones: tuple[int, ...]) -> None:
    ours = [multistep_rate(step, 0.3, warm_up, milestones, 0.2) for step in range(40)]
    assert ours == pytest.approx(reference_multistep(40, 0.3, warm_up, milestones, 0.2), rel=1e-12)


@pytest.mark.parametrize("warm_up", [NONE, WarmUp(1), WarmUp(5), WarmUp(5, 2.5)])
@pytest.mark.parametrize("eta_min", [0.0, 0.01])
def test_cosine_is_the_reference_recursion(warm_up: WarmUp, eta_min: float) -> None:
    ours = [cosine_rate(step, 0.3, warm_up, 9, eta_min) for step in range(45)]
    assert ours == pytest.approx(reference_cosine(45, 0.3, warm_up, 9, eta_min), rel=1e-9, abs=1e-12)
