"""Which rank is last: one vote for each moment, and none where it is unknown."""

import math

import pandas as pd
import pytest

from hpcai.metrics.profiles.communication_steps import DEFAULT_CYCLE_S, FEWEST_MOMENTS, SlowestRank, slowest_rank

MS = 1e-3


def bursts(lasts, ranks=2, tensors=5, late_s=5 * MS, file=None):
    """Return marks and negotiations: once per second a burst of tensors in which the given rank comes last."""
    marks, asked = [], []
    for second, last in enumerate(lasts):
        for tensor in range(tensors):
            start_s = second + 1e-5 * tensor
            others = [rank for rank in range(ranks) if rank != last]
            marks += [(f"t{tensor}", rank, start_s + 1e-6 * place) for place, rank in enumerate(others)]
            marks.append((f"t{tensor}", last, start_s + late_s))
            asked.append((f"t{tensor}", start_s, late_s))
    ready = pd.DataFrame(marks, columns=["tensor", "rank", "time_s"])
    negotiations = pd.DataFrame(asked, columns=["tensor", "start_s", "duration_s"])
    return [table if file is None else table.assign(file=file) for table in (ready, negotiations)]


def test_a_burst_is_one_vote():
    lasts = [1] * 9 + [0]
    for tensors in (1, 200):
        found = slowest_rank(*bursts(lasts, tensors=tensors), 2)
        assert found == SlowestRank(rank=1, last_ratio=pytest.approx(0.9), moments=10)


def test_few_moments_say_nothing_however_many_tensors():
    found = slowest_rank(*bursts([1] * (FEWEST_MOMENTS - 1), tensors=200), 2)
    assert (found.rank, found.moments) == (None, FEWEST_MOMENTS - 1)
    assert math.isnan(found.last_ratio)


def test_requests_of_one_cycle_stand_in_the_order_of_ranks_and_tell_nothing():
    lasts = [1] * 10 + [0] * 10
    late, even = bursts(lasts[10:]), bursts(lasts[:10], late_s=DEFAULT_CYCLE_S / 2)
    for table in even:
        table[table.columns[-1 if "rank" in table else 1]] += 20
    both = [pd.concat(tables, ignore_index=True) for tables in zip(late, even, strict=True)]
    assert slowest_rank(*both, 2) == SlowestRank(rank=0, last_ratio=pytest.approx(0.5), moments=20)
    assert slowest_rank(*both, 2, cycle_s=0.2 * MS).last_ratio == pytest.approx(0.5)
    assert slowest_rank(*both, 2, cycle_s=20 * MS).rank is None


def test_only_whole_negotiations_that_count_have_a_vote():
    ready, asked = bursts([2, 1] * 10, ranks=3)
    assert slowest_rank(ready, asked, 3).moments == 20
    assert slowest_rank(ready, asked[asked["start_s"] >= 8], 3).moments == 12
    assert slowest_rank(ready[(ready["rank"] != 1) | (ready["time_s"] >= 6)], asked, 3).moments == 14
    assert slowest_rank(ready[ready["rank"] != 1], asked, 3) == SlowestRank(
        None, pytest.approx(math.nan, nan_ok=True), 0
    )
    assert slowest_rank(ready, asked, 1).moments == 0
    assert slowest_rank(ready.iloc[:0], asked, 3).moments == 0
    assert slowest_rank(ready, asked.iloc[:0], 3).moments == 0


def test_files_are_kept_apart():
    tables = [bursts([1] * 12, file=0), bursts([0] * 4, file=1)]
    ready, asked = (pd.concat(parts, ignore_index=True) for parts in zip(*tables, strict=True))
    shifted = [table.assign(**{name: table[name] + 0.5 * table["file"]}) for table, name in
               ((ready, "time_s"), (asked, "start_s"))]  # fmt: skip
    assert slowest_rank(*shifted, 2) == SlowestRank(rank=1, last_ratio=pytest.approx(0.75), moments=16)
