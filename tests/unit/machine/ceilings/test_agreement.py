"""Repetition of ceilings: bounded in number and in time, whatever the machine does."""

import itertools

from hpcai.machine.ceilings import agreement
from hpcai.machine.ceilings.agreement import AGREEMENT_RATIO, LONGEST_S, MOST_ROUNDS, further_rounds, unsettled
from hpcai.machine.ceilings.sampling import Sample


def sample(rate: float, setting: str = "1", threads: int = 1, page_cache: str = "") -> Sample:
    fields = {"kind": "gemm", "precision": "fp32", "backend": "numpy", "setting": setting, "threads": threads}
    return Sample.model_validate(
        {**fields, "work": 1000.0, "unit": "FLOP/s", "duration_s": 1000 / rate, "page_cache": page_cache}
    )


def count_rounds(samples: list[Sample], more: list[float], seconds: float = 0.0) -> int:
    """Return the number of rounds until it ends; each adds one sample and takes this long."""
    times = itertools.count(0.0, seconds) if seconds else itertools.repeat(0.0)
    rates, number = itertools.cycle(more), 0
    for _ in further_rounds(lambda: samples, lambda: next(times)):
        samples.append(sample(next(rates)))
        number += 1
    return number


def test_two_that_agree_are_enough():
    assert count_rounds([sample(100.0), sample(96.0), sample(1.0)], [1.0]) == 0
    assert count_rounds([sample(100.0), sample(90.0)], [95.5]) == 1


def test_a_single_repetition_agrees_with_nothing():
    assert [one.n for one in unsettled([sample(100.0)])] == [1]


def test_the_limit_is_of_the_best():
    assert not unsettled([sample(100.0), sample(100.0 * (1 - AGREEMENT_RATIO) + 1e-9)])
    assert unsettled([sample(100.0), sample(100.0 * (1 - AGREEMENT_RATIO) - 1e-6)])


def test_only_the_fastest_way_of_a_ceiling_counts():
    samples = [sample(100.0), sample(99.0), sample(50.0, "2"), sample(10.0, "2"), sample(80.0, threads=2)]
    assert [(one.setting, one.threads) for one in unsettled(samples)] == [("1", 2)]


def test_what_does_not_count_need_not_agree():
    assert not unsettled([sample(100.0, page_cache="warm"), sample(10.0, page_cache="warm")])


def test_rounds_are_bounded_in_number():
    assert count_rounds([sample(100.0)], [10.0, 20.0]) == MOST_ROUNDS


def test_rounds_are_bounded_in_time(monkeypatch):
    monkeypatch.setattr(agreement, "MOST_ROUNDS", 1000)
    assert count_rounds([sample(100.0)], [10.0, 20.0], seconds=1.0) == LONGEST_S - 1
