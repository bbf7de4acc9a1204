"""Steps rebuilt from a timeline, and what follows from changes."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from unit.profiles.profile_folders import STEPS_S, make_profile
from unit.profiles.timeline_text import timeline_text

from hpcai.core.errors import ParseError
from hpcai.predict.scales.replay import (
    Change,
    MessageParts,
    StepParts,
    agreement_by_itself_s,
    replay_step,
    split_steps,
    typical_step,
)
from hpcai.profiles.timeline.views import traffic_of

START_S = 1000 + STEPS_S[0] - 0.25
MESSAGE = MessageParts(0.030, 0.0005, 0.004, 0.001, 0.0002, 0.002, (32_768.0, 32_768.0, 65_536.0))
STEP = StepParts((MESSAGE,), 0.005, 0.0427)


@pytest.fixture
def parts(tmp_path):
    profile = make_profile(tmp_path / "p", "timeline", {"timeline.json": timeline_text(START_S)}, ranks_per_node=2)
    traffic = traffic_of(profile, profile.steps())
    return split_steps(traffic.spans, traffic.timeline.cycles, traffic.steps, agreement_s=1.0)


def test_the_parts_of_a_step_are_those_of_its_timeline(parts):
    assert len(parts) == 4
    message = parts[0].messages[0]
    assert message.compute_s == pytest.approx(0.1)
    assert message.agreement_s == pytest.approx(0.040)
    assert message.transfer_s == pytest.approx(0.010)
    assert message.copies_s == pytest.approx(0.002)
    assert message.size_bytes == 2048
    assert parts[0].after_s == pytest.approx(0.5 - 0.152)
    assert replay_step(typical_step(parts)) == pytest.approx(0.5)


def test_without_messages_there_is_no_replay():
    empty = pd.DataFrame({"tensor": [], "activity": [], "start_s": [], "duration_s": [], "bytes": []})
    steps = pd.DataFrame({"start_s": [0.0], "duration_s": [1.0]})
    with pytest.raises(ParseError):
        split_steps(empty, pd.DataFrame({"time_s": []}), steps)


def test_typical_step_is_the_mean_of_the_middle_half():
    longer = StepParts((replace(MESSAGE, compute_s=0.040, others_s=0.0),), 0.006, 0.0497)
    shortest = StepParts((replace(MESSAGE, compute_s=0.001),), 0.001, 0.0097)
    longest = StepParts((replace(MESSAGE, transfer_s=1.0),), 0.001, 1.0367)
    typical = typical_step([longest, STEP, shortest, longer])
    assert typical.step_s == pytest.approx((STEP.step_s + longer.step_s) / 2)
    assert replay_step(typical) == pytest.approx(typical.step_s)


@pytest.mark.parametrize(
    ("change", "step_s"),
    [
        (Change(), 0.0427),
        (Change(bandwidth_ratio=2.0), 0.0427 - 0.0009),  # of 2 ms 0.2 are those of a short message
        (Change(negotiated=False), 0.0427 - 0.0015),
        (Change(fusion_bytes=131072.0), 0.0427),
        (Change(fusion_bytes=65536.0), 0.0427 + 0.0004),  # two messages of 0.6 ms for one of 1 ms, so 1.2 ms each
        # No tensor is divided: two of 32 KiB, 7/8 of the way from 256 B to 64 KiB, and one of 64 KiB.
        (Change(fusion_bytes=40_000.0), 0.0427 + 2 * (2 * 0.0002 * 3 ** (7 / 8) + 0.0006) - 0.002),
        (Change(cycle_s=5e-3), 0.0427 + 0.002),  # half a cycle until the request is seen; ranks agree within it
        (Change(slow_ratio=2.0), 0.0427 + 0.034 + 0.005),  # the slowest rank computes 39 ms
    ],
)
def test_changes_by_hand(change, step_s):
    transfers = pd.DataFrame({"bytes": [256, 65_536, 131_072], "time_s": [0.0002, 0.0006, 0.0010]})
    assert replay_step(STEP, change, transfers) == pytest.approx(step_s)


@pytest.mark.parametrize("transfers", [None, pd.DataFrame({"bytes": [131_072], "time_s": [0.0010]})])
def test_sizes_that_were_not_measured_have_no_answer(transfers):
    assert math.isnan(replay_step(STEP, Change(fusion_bytes=65536.0), transfers))


def test_messages_are_not_joined():
    step = StepParts((MESSAGE, MESSAGE), 0.005, 0.0)
    transfers = pd.DataFrame({"bytes": [65_536, 131_072], "time_s": [0.0006, 0.0010]})
    assert math.isnan(replay_step(step, Change(fusion_bytes=262_144.0), transfers))
    assert replay_step(step, Change(fusion_bytes=65_536.0), transfers) > replay_step(step)


def test_messages_travel_while_others_are_computed():
    early = replace(MESSAGE, compute_s=0.010, others_s=0.0)
    late = replace(MESSAGE, compute_s=0.020, others_s=0.0)
    both = replay_step(StepParts((early, late), 0.005, 0.0))
    assert both == pytest.approx(0.010 + 0.020 + 0.0005 + 0.001 + 0.0022 + 0.005)


def test_a_slower_rank_delays_all_messages_once():
    slower = replace(MESSAGE, compute_s=0.010)  # by 4 ms, at the first as at the second message
    both = replay_step(StepParts((slower, slower), 0.005, 0.0))
    assert both == pytest.approx(0.010 + 0.010 + 0.004 + 0.0005 + 0.001 + 0.0022 + 0.005)


SPANS = [
    # tensor, activity, begin and end in ms; c and d are agreed upon with each other, d waits until c has travelled.
    ("a", "NEGOTIATE_ALLREDUCE", 10, 12),
    ("b", "NEGOTIATE_ALLREDUCE", 11, 12),
    ("a", "ALLREDUCE", 13, 16),
    ("b", "ALLREDUCE", 13, 16),
    ("a", "GLOO_ALLREDUCE", 14, 15),
    ("b", "GLOO_ALLREDUCE", 14, 15),
    ("c", "NEGOTIATE_ALLREDUCE", 20, 26),
    ("d", "NEGOTIATE_ALLREDUCE", 20, 26),
    ("c", "ALLREDUCE", 26, 34),
    ("c", "GLOO_ALLREDUCE", 27, 33),
    ("d", "ALLREDUCE", 35, 40),
    ("d", "GLOO_ALLREDUCE", 36, 39),
]


@pytest.mark.parametrize("cycle_s", [0.5e-3, 1e-3, 5e-3])
def test_the_profiled_cycle_changes_nothing(cycle_s):
    """A request waits for half of the cycle that was set, so another one moves it by half of the difference."""
    windows = [(0.05 * number, 0.05) for number in range(4)]
    spans = [
        ("a", activity, start_s + 0.030 + after_s, duration_s, 1024.0)
        for start_s, _ in windows
        for activity, after_s, duration_s in (
            ("NEGOTIATE_ALLREDUCE", 0.0, 0.0002), ("ALLREDUCE", 0.0003, 0.006), ("MPI_ALLREDUCE", 0.0004, 0.005),
        )
    ]  # fmt: skip
    cycles = pd.DataFrame({"time_s": [number * cycle_s for number in range(int(0.2 / cycle_s))]})
    steps = split_steps(
        pd.DataFrame(spans, columns=["tensor", "activity", "start_s", "duration_s", "bytes"]),
        cycles, pd.DataFrame(windows, columns=["start_s", "duration_s"]), cycle_s,
    )  # fmt: skip
    typical = typical_step(steps)
    assert typical.messages[0].request_s == pytest.approx(cycle_s / 2, abs=cycle_s / 2)
    assert typical.messages[0].request_s >= cycle_s / 2
    assert replay_step(typical, Change(cycle_s=cycle_s)) == replay_step(typical) == pytest.approx(0.05)
    assert replay_step(typical, Change(cycle_s=cycle_s + 2e-3)) == pytest.approx(0.05 + 1e-3)


def test_steps_of_several_messages_are_rebuilt():
    spans = pd.DataFrame(SPANS, columns=["tensor", "activity", "start_s", "end_s"])
    spans[["start_s", "end_s"]] /= 1e3
    spans = spans.assign(duration_s=spans["end_s"] - spans["start_s"], bytes=1024.0).drop(columns="end_s")
    (step,) = split_steps(spans, pd.DataFrame({"time_s": []}), pd.DataFrame({"start_s": [0.0], "duration_s": [0.045]}))
    assert [message.size_bytes for message in step.messages] == [2048, 1024, 1024]
    assert [message.transfer_s for message in step.messages] == pytest.approx([0.001, 0.006, 0.003])
    assert [message.others_s for message in step.messages] == pytest.approx([0.0, 0.005, 0.005])
    assert replay_step(step) == pytest.approx(0.045)
    transfers = pd.DataFrame({"bytes": [4], "time_s": [0.0]})  # a short message takes no time
    assert replay_step(step, Change(bandwidth_ratio=2.0), transfers) == pytest.approx(0.045 - 0.003 - 0.0015)


def test_without_transfers_another_bandwidth_has_no_answer():
    """What a short message takes would count as bandwidth."""
    assert math.isnan(replay_step(STEP, Change(bandwidth_ratio=2.0)))
    assert replay_step(STEP, Change(bandwidth_ratio=1.0)) == pytest.approx(STEP.step_s)


LATE_S = (0.020, 0.022, 0.025, 0.028, 0.030, 0.024)
"""How much later the other rank is ready than rank 0, step by step."""


def late_steps(agreement_s):
    """Steps of 40 ms of computing, agreed upon in 1.1 ms, 2 ms of operation and 1 ms after it."""
    spans, windows, start_s = [], [], 0.0
    for late_s in LATE_S:
        asked_s, begin_s = start_s + 0.040, start_s + 0.040 + late_s + 0.0011
        spans += [
            ("g", "NEGOTIATE_ALLREDUCE", asked_s, late_s + 0.001, 1024.0),
            ("g", "ALLREDUCE", begin_s, 0.002, 1024.0),
            ("g", "GLOO_ALLREDUCE", begin_s + 0.0002, 0.0016, 1024.0),
        ]
        windows.append((start_s, begin_s + 0.003 - start_s))
        start_s = begin_s + 0.003
    return split_steps(
        pd.DataFrame(spans, columns=["tensor", "activity", "start_s", "duration_s", "bytes"]),
        pd.DataFrame({"time_s": []}), pd.DataFrame(windows, columns=["start_s", "duration_s"]), agreement_s=agreement_s,
    )  # fmt: skip


@pytest.mark.parametrize("agreement_s", [math.nan, 0.001])  # a cycle, or short calls by themselves
def test_a_rank_that_is_always_late_is_no_agreement(agreement_s):
    step = typical_step(late_steps(agreement_s))
    rebuilt_s = replay_step(step)
    assert step.messages[0].agreement_s == pytest.approx(0.0011)
    assert replay_step(step, Change(negotiated=False)) / rebuilt_s == pytest.approx(0.984, abs=1e-3)
    assert replay_step(step, Change(slow_ratio=2.0)) / rebuilt_s == pytest.approx(1.95, abs=5e-3)


def test_agreement_by_itself_is_the_shortest_call_less_its_transfer():
    rows = [("call", 1024, 0.009), ("call", 4, 0.0030), ("transfer", 1024, 0.001), ("transfer", 4, 0.0010)]
    links = pd.DataFrame(rows, columns=["what", "bytes", "time_s"])
    assert agreement_by_itself_s(links) == pytest.approx(0.002)
    assert agreement_by_itself_s(links.iloc[[0, 1, 2]]) == pytest.approx(0.008)
    assert math.isnan(agreement_by_itself_s(links[links["what"] == "call"]))
