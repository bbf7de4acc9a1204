"""No time is published from logs of own runs whose time stamps were moved by a step of the wall clock."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.mlperf_hpc.log_factory import START_MS, log_events, text_of
from unit.mlperf_hpc.submission.result_factory import make_own_record, timed_like, write_group, write_run
from unit.record_factory import make_record

from hpcai.core.stalls import STALLED, Stalls
from hpcai.mlperf_hpc.analysis.own_clock import ALLOWED_S, CLOCKS_DIFFER, CLOCKS_DIFFERED, timed_by_record
from hpcai.mlperf_hpc.analysis.own_runs import own_round, read_own_groups, read_own_runs
from hpcai.mlperf_hpc.analysis.run_quantities import quantities_of
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.analysis.weak_scores import weak_table
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.rounds.model import LoggedRun
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.parsers.mllog import parse_mllog
from hpcai.records.files import read_part
from hpcai.records.run import RunRecord
from hpcai.records.weak import GROUP, WeakGroup

RUN_S = 4.0 + 4 * 3.0 + 0.2
"""Of the made-up run: staging, four epochs, the end. Initialisation takes 20 s before it."""
Events = list[dict[str, Any]]
TIMES = (
    "run_s", "init_s", "staging_s", "epochs_s", "evaluation_s", "train_s", "extra_s", "epoch_s", "epoch_rate_per_s",
    "train_rate_samples_per_s", "evaluation_rate_samples_per_s", "combined_rate_samples_per_s",
)  # fmt: skip


def make_events(**changes: Any) -> Events:
    return log_events(**{"staging_s": 4.0, "epochs": 4, "epoch_s": 3.0, "eval_s": 1.0, "extra_s": 0.2, **changes})


def stepped(events: Events, *steps: tuple[int, float]) -> Events:
    """Step the clock by so many seconds before the events of these numbers."""
    moved = [dict(event) for event in events]
    for first, by_s in steps:
        for event in moved[first:]:
            event["time_ms"] += round(1000 * by_s)
    return moved


def place_of(events: Events, key: str, epoch: int | None = None) -> int:
    """Return the number of an event."""
    found = (place for place, event in enumerate(events) if event["key"] == key)
    return next(place for place in found if epoch in (None, events[place]["metadata"].get("epoch_num")))


def read(events: Events) -> LoggedRun:
    return read_run(parse_mllog(text_of(events).encode(), "log"), "log", 1)


def record_of(events: Events, outcome: Any = "converged", **changes: Any) -> RunRecord:
    """Return the record of a run whose monotonic clock agrees with these events."""
    return timed_like(make_record(outcome, **changes), text_of(events))


def check(events: Events, *steps: tuple[int, float]) -> LoggedRun:
    return timed_by_record(read(stepped(events, *steps)), record_of(events))


def test_a_run_whose_clocks_agree_stays_as_it_is() -> None:
    run = check(make_events())
    assert run == read(make_events())
    assert run.run is not None
    assert run.run.duration_s == RUN_S


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 5.0, -5.0, 0.7, -0.7])
def test_a_step_within_the_run_leaves_no_time(step_s: float) -> None:
    events = make_events()
    run = check(events, (place_of(events, "epoch_start", 3), step_s))
    assert run.run is None
    assert [repair.kind for repair in run.repairs].count(CLOCKS_DIFFER) == 1
    found = quantities_of(run)
    assert all(pd.isna(getattr(found, name)) for name in TIMES)
    assert (found.epochs, found.reasons[0]) == (4, run.untimed)


@pytest.mark.parametrize("step_s", [5.0, -5.0])
@pytest.mark.parametrize(
    ("there", "back"),
    [
        (("epoch_start", 2), ("epoch_start", 4)),
        (("eval_start", 2), ("epoch_start", 3)),
        (("staging_stop", None), ("epoch_stop", 1)),
        (("eval_stop", 3), ("run_stop", None)),
    ],
)
def test_a_step_there_and_one_back_are_found_in_the_parts(step_s: float, there: Any, back: Any) -> None:
    events = make_events()
    run = check(events, (place_of(events, *there), step_s), (place_of(events, *back), -step_s))
    assert run.run is None
    assert run.untimed


def test_steps_by_which_no_time_changes_are_none() -> None:
    events = make_events()
    assert check(events, (0, 3600.0)).untimed == ""
    assert check(events, (place_of(events, "run_start"), 3600.0)).untimed == ""
    assert check(events, (place_of(events, "epoch_start", 2), ALLOWED_S / 2)).untimed == ""


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(make_events()) - 1), st.floats(-60, 60) | st.floats(-1, 1)), max_size=4))
def test_whatever_the_clock_did_times_that_stay_are_right(steps: list[tuple[int, float]]) -> None:
    events = make_events()
    run = check(events, *steps)
    if run.untimed:
        return
    right, found = asdict(quantities_of(read(events))), asdict(quantities_of(run))
    # A sum has this many parts of at most 20 s. Each may be off by the tolerance, and the sum by another 0.2 s.
    parts = {"init_s": 1, "run_s": 1, "staging_s": 1, "epochs_s": 4, "evaluation_s": 4, "train_s": 8, "extra_s": 1}
    for name, count in parts.items():
        if not pd.isna(found[name]):  # an init_stop before its init_start has no time
            assert found[name] == pytest.approx(right[name], abs=count * (ALLOWED_S + 0.2 + 0.2)), name


def test_a_step_while_the_run_initialises_or_stages_before_its_clock() -> None:
    events = make_events()
    run = check(events, (place_of(events, "init_stop"), 5.0))
    assert CLOCKS_DIFFERED(part="init_start to init_stop", logged="25 s", measured_s=20) in run.untimed
    moved = [place_of(events, key) for key in ("staging_start", "staging_stop", "run_start")]
    early = [*events[: moved[2]], *events[moved[0] : moved[1] + 1], dict(events[moved[2]]), *events[moved[1] + 1 :]]
    early[moved[2] + 2]["time_ms"] = events[moved[1]]["time_ms"]
    record = record_of(early, time_staging=False)
    unknown = record.model_copy(update={"launch_s": None})
    assert timed_by_record(read(early), record).untimed == timed_by_record(read(early), unknown).untimed == ""
    later = stepped(early, (moved[2] + 1, 60.0))
    assert timed_by_record(read(later), unknown).untimed
    assert CLOCKS_DIFFERED(part="staging", logged="64 s", measured_s=4) in timed_by_record(read(later), record).untimed


def test_a_file_system_that_holds_up_a_line_is_no_step() -> None:
    """The run's own clock continues, so its record has time other than training, evaluation and staging."""
    events = make_events()
    held = stepped(events, (place_of(events, "eval_start", 2), 2.0))
    whole = record_of(held)
    assert whole.training is not None
    epochs = record_of(events).epochs
    record = whole.model_copy(update={"training": whole.training.model_copy(update={"epochs": epochs})})
    assert timed_by_record(read(held), record).untimed == ""


def test_epochs_of_a_run_that_broke_down_are_compared_as_well() -> None:
    events = make_events()
    cut = events[: place_of(events, "epoch_start", 4)]
    record = make_record("failed", record={"partial_epochs": record_of(events).epochs[:2]})
    assert timed_by_record(read(cut), record) == read(cut)
    run = timed_by_record(read(stepped(cut, (place_of(events, "eval_start", 2), 30.0))), record)
    assert CLOCKS_DIFFERED(part="epoch 2", logged="33 s", measured_s=3) in run.untimed
    assert pd.isna(quantities_of(run).epochs_s)


def write_study(folder: Path, change: Callable[[int, Events], Events], count: int = 5) -> list[Path]:
    """Write runs of OC20, with logs that a clock changed for each number."""
    paths = []
    for number in range(1, count + 1):
        events = log_events("oc20", start_ms=START_MS + 10_000_000 * number, seed=number)
        record = make_own_record("oc20", number)
        whole, logged = text_of(events), text_of(change(number, events))
        paths.append(write_run(folder / "runs" / record.run_id, record, logged, measured=whole) / "record.json")
    return paths


def one_hour(number: int, events: Events) -> Events:
    return stepped(events, (place_of(events, "epoch_start", 2), 3600.0)) if number == 2 else events


def round_of(paths: list[Path]) -> CheckedRound:
    return own_round(read_own_runs(paths))


def test_tables_have_no_time_of_such_a_run_and_say_why(tmp_path: Path) -> None:
    checked = round_of(write_study(tmp_path, one_hour))
    runs = run_table([checked]).set_index("number")
    assert runs["complies"].to_dict() == {number: number != 2 for number in range(1, 6)}
    assert runs["run_s"].notna().to_dict() == {number: number != 2 for number in range(1, 6)}
    assert runs.loc[2, ["good_by_status", "good_by_target", "kept_by_status"]].tolist() == [False] * 3
    assert CLOCKS_DIFFERED(part="run_start to run_stop", logged="4031 s", measured_s=431) in runs.loc[2, "reason"]
    (repair,) = [repair for run in checked.round.submissions[0].runs for repair in run.repairs]
    assert (repair.kind, repair.source) == (CLOCKS_DIFFER, runs.loc[2, "source"])
    # One run of five may be dropped as the slowest; the mean is that of the others.
    (result,) = result_table(run_table([checked])).to_dict("records")
    assert (result["kept"], result["run_s"], result["good_by_status"]) == (3, 431.0, 4)


def test_two_such_runs_leave_no_score(tmp_path: Path) -> None:
    checked = round_of(write_study(tmp_path, lambda number, events: one_hour(min(number, 2), events), count=2))
    (result,) = result_table(run_table([checked])).to_dict("records")
    assert pd.isna(result["run_s"])
    checked = round_of(write_study(tmp_path / "more", lambda number, events: one_hour(2 if number < 3 else 1, events)))
    (result,) = result_table(run_table([checked])).to_dict("records")
    assert (result["kept"], result["good_by_status"]) == (0, 3)
    assert pd.isna(result["time_to_train_s"])
    assert "2 of 5 runs do not comply" in result["reason"]


def test_a_step_between_the_starts_of_instances_leaves_no_time_for_all(tmp_path: Path) -> None:
    folder = write_group(tmp_path)
    (group,) = read_own_groups([folder / GROUP])
    (row,) = weak_table([own_round([], [group])], {}).to_dict("records")
    assert row["time_to_train_all_s"] > 0
    known = read_part(WeakGroup, folder / GROUP)
    measured_s = known.time_to_train_all_monotonic_s
    assert measured_s is not None
    later = known.model_copy(update={"time_to_train_all_monotonic_s": measured_s - 60.0})
    checked = own_round([], [group._replace(group=later)])
    (row,) = weak_table([checked], {}).to_dict("records")
    assert pd.isna(row["time_to_train_all_s"])
    assert row["counted_instances"] == 0
    assert run_table([checked])["complies"].eq(False).all()
    unknown = known.model_copy(update={"time_to_train_all_monotonic_s": None})
    (row,) = weak_table([own_round([], [group._replace(group=unknown)])], {}).to_dict("records")
    assert row["time_to_train_all_s"] > 0


def test_a_pause_stands_beside_the_time_that_holds_it(tmp_path: Path) -> None:
    record = make_own_record("oc20", 1)
    assert record.training is not None
    stalls = Stalls(count=1, longest_s=20.1, beside_s=0.02)
    paused = record.model_copy(update={"training": record.training.model_copy(update={"stalls": stalls})})
    path = write_run(tmp_path / "r1", paused, text_of(log_events("oc20"))) / "record.json"
    (row,) = run_table([round_of([path])]).to_dict("records")
    assert row["run_s"] == 431.0
    assert f"stalled: {STALLED(longest_s=20.1, beside_s=0.02)}" in row["reason"]
