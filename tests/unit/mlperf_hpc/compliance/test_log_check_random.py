"""Random changes of a log: our verdict and the keys that failed always equal the package's."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.mlperf_hpc.compliance.authority import assert_equal
from unit.mlperf_hpc.log_factory import TARGETS, log_events

from hpcai.mlperf_hpc.compliance.model import RULE_SETS

VALUES = st.sampled_from(
    [None, True, False, 0, 1, -1, 0.5, 1e-6, float("nan"), float("inf"), "", "a", "open", "closed", "deepcam", "LAMB",
     "multistep", [], [1, 2], {}, {"a": 1}, 10**30]
)  # fmt: skip
LOGS = {
    (benchmark, division): log_events(benchmark, epochs=2, division=division)
    for benchmark in TARGETS
    for division in ("closed", "open")
}


@st.composite
def changes(draw):
    """A log with some lines left out, doubled, swapped, or with other fields."""
    events = [dict(event) for event in LOGS[draw(st.sampled_from(sorted(LOGS)))]]
    for _ in range(draw(st.integers(1, 4))):
        if not events:
            break
        place = draw(st.integers(0, len(events) - 1))
        other = draw(st.integers(0, len(events) - 1))
        kind = draw(st.sampled_from(["leave out", "double", "swap", "value", "metadata", "key", "time"]))
        if kind == "leave out":
            del events[place]
        elif kind == "double":
            events.insert(other, dict(events[place]))
        elif kind == "swap":
            events[place], events[other] = events[other], events[place]
        elif kind == "value":
            events[place]["value"] = draw(VALUES)
        elif kind == "metadata":
            events[place]["metadata"] = draw(st.sampled_from([None, {}, [], 3, "epoch_num", {"epoch_num": None}]))
        elif kind == "key":
            events[place]["key"] = events[other]["key"]
        else:
            events[place]["time_ms"] += draw(st.integers(-(10**7), 10**7))
    return "".join(f":::MLLOG {json.dumps(event)}\n" for event in events)


@pytest.mark.parametrize("rule_set", RULE_SETS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=changes())
def test_random_changes(rule_set, text, tmp_path):
    assert_equal(text.encode(), tmp_path, rule_set)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=changes(), place=st.integers(0, 10**6), junk=st.binary(min_size=1, max_size=8))
def test_random_damage(text, place, junk, tmp_path):
    content = text.encode()
    place %= len(content) + 1
    assert_equal(content[:place] + junk + content[place + len(junk) :], tmp_path, "3.0.0")
