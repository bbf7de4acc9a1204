"""The share of a node that other processes took during a timing."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.core import disturbance
from hpcai.core.disturbance import (
    CoreUse,
    Disturbance,
    Look,
    Tolerance,
    disturbance_of,
    is_disturbed,
    look,
    measure_quietly,
    say_disturbance,
    use_since,
    worst,
)

TOLERANCE = Tolerance(others_ratio=0.03, repeats=2)


def use(node="a", own_s=10.0, busy_s=20.0, **changes):
    known = {"node": node, "cores": 2, "wall_s": 10.0, "own_s": own_s, "busy_s": busy_s, "steal_s": 0}
    return CoreUse(**{**known, **changes})


def node(others_s=0.0, steal_s=0.0, wall_s=10.0, name="a"):
    return Disturbance(node=name, cores=2, wall_s=wall_s, others_s=others_s, steal_s=steal_s)


def test_others_are_all_that_no_rank_of_the_node_used():
    one, other = disturbance_of([use(own_s=9.0, busy_s=19.0), use(own_s=8.0, busy_s=19.0), use("b", own_s=9.5)])
    assert (one.node, one.others_s, one.others_ratio) == ("a", 2.0, pytest.approx(0.1))
    assert (other.node, other.others_s) == ("b", pytest.approx(10.5))


def test_the_rank_that_looked_for_longest_saw_the_node():
    found = disturbance_of([use(wall_s=8.0, own_s=7.0, busy_s=14.0), use(wall_s=10.0, own_s=9.0, busy_s=18.0)])
    assert (found[0].wall_s, found[0].others_s) == (10.0, pytest.approx(2.0))


def test_one_rank_that_did_not_look_leaves_nothing_to_say():
    assert disturbance_of([use(), None]) == ()
    assert disturbance_of([]) == ()
    assert not is_disturbed((), TOLERANCE)
    assert worst(()) is None
    assert say_disturbance(()) == "not measured"


def test_less_than_the_ranks_used_is_nothing():
    assert disturbance_of([use(own_s=20.01, busy_s=20.0)])[0].others_s == 0.0


@pytest.mark.parametrize(
    ("found", "disturbed"),
    [
        (node(others_s=0.5), False),
        (node(others_s=0.7), True),
        (node(steal_s=0.7), True),
        (node(others_s=0.35, steal_s=0.35), False),
        (node(others_s=0.04, wall_s=0.1), False),  # two ticks: the kernel's accounts tell no more
    ],
    ids=["others below", "others above", "steal above", "each below", "shorter than the accounts tell"],
)
def test_a_limit_for_others_and_for_a_hypervisor(found, disturbed):
    assert is_disturbed([node(), found], TOLERANCE) is disturbed


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.001, 1e6), st.integers(1, 512))
def test_shares_are_of_all_cores(others_s, steal_s, wall_s, cores):
    found = Disturbance(node="a", cores=cores, wall_s=wall_s, others_s=others_s, steal_s=steal_s)
    assert found.others_ratio * wall_s * cores == pytest.approx(others_s)
    assert found.steal_ratio * wall_s * cores == pytest.approx(steal_s)


def test_two_looks_at_this_machine():
    start = look()
    sum(range(3_000_000))
    found = use_since(start)
    assert found.wall_s > 0
    assert found.own_s > 0
    assert found.cores >= 1


def test_a_process_that_began_and_ended_in_between_is_seen():
    program = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    before = look()
    # Its parent is neither this process nor one that lives on.
    subprocess.run(["sh", "-c", f"{sys.executable} -c '{program}'"], check=True)
    found = before.until(look())
    assert found.own_s > 0.4  # as a child of this process
    assert found.busy_s > 0.4
    assert look().processes_s - before.processes_s > 0.4


def test_the_larger_account_counts():
    start = Look(wall_s=0.0, own_s=0.0, busy_s=0.0, steal_s=0.0, processes_s=0.0)
    assert start.until(Look(wall_s=1.0, own_s=0.5, busy_s=0.6, steal_s=0.0, processes_s=0.8)).busy_s == 0.8
    assert start.until(Look(wall_s=1.0, own_s=0.5, busy_s=0.6, steal_s=0.0, processes_s=0.5)).busy_s == 0.6


def test_a_kernel_without_accounts(monkeypatch, tmp_path):
    monkeypatch.setattr(disturbance, "STAT", tmp_path / "stat")
    assert look() is None
    (tmp_path / "stat").write_text("cpu  1 2\n")
    assert look() is None
    assert use_since(None) is None


@dataclass(frozen=True)
class Report:
    number: int
    disturbance: tuple


@pytest.mark.parametrize(
    ("others_s", "result", "told"),
    [([0.1], 0, 0), ([5.0, 0.2], 1, 1), ([5.0, 3.0, 4.0], 1, 3)],
    ids=["quiet", "quiet the second time", "never quiet"],
)
def test_a_disturbed_measurement_is_repeated_and_the_least_disturbed_counts(others_s, result, told):
    reports, words = iter([Report(number, (node(taken),)) for number, taken in enumerate(others_s)]), []
    assert measure_quietly(lambda: next(reports), TOLERANCE, words.append).number == result
    assert len(words) == told
    assert next(reports, None) is None
