"""Read one log as one run: its content, its irregularities, and their treatment."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from hpcai.mlperf_hpc.rounds.log_repairs import (
    damaged_lines,
    impossible_counts,
    repeated_settings,
    shown,
    trailing_events,
    unordered_times,
    wrong_event_types,
)
from hpcai.mlperf_hpc.rounds.model import LARGEST_COUNT, Claim, LoggedRun, Repair, Score, Span
from hpcai.mlperf_hpc.rounds.pairing import Pairing, label_of, number_in, outside, overlapping, pair, place
from hpcai.mlperf_hpc.rounds.texts import clip
from hpcai.mlperf_hpc.rounds.times import FIRST_MS, LAST_MS, is_time
from hpcai.parsers.mllog import Mllog, MllogEvent

_SUBMISSION = ("org", "division", "benchmark", "status", "platform")
QUALITIES = ("eval_error", "eval_accuracy")
"""The first logged one counts: MXNet's CosmoFlow also logs the negative error as eval_accuracy."""
Events = Mapping[str, list[MllogEvent]]
_LINE_OF, _TIME_OF, _START_OF = attrgetter("line"), attrgetter("time_ms"), attrgetter("start_ms")


def read_run(log: Mllog, source: str, number: int) -> LoggedRun:
    """Read one run from its log; whatever the content, return what can be determined, with the irregularities.

    The run ends at the first ``run_stop`` and begins at the last ``run_start`` before it, as in the official summary
    (``result_summarizer._query_run_start_stop``): a later ``run_stop`` cannot turn an aborted run into a success.
    Intervals and scores count from that start to that stop, in the order of the lines.

    Parameters
    ----------
    log
        The events.
    source, number
        File relative to the round's root, and N of ``result_N.txt``.
    """
    repairs = damaged_lines(log, source)
    by_key = _by_key(log, source, repairs)
    start, stop = _ends(by_key, source, repairs)
    run = _span_of(start, stop, source, repairs)
    window = _within(by_key, start, stop, source, repairs)
    repairs += trailing_events(log, stop, source) + unordered_times(log, (start, stop), source)
    repairs += wrong_event_types(log, source)
    settings = {key: events[0].value for key, events in by_key.items() if not _is_no_setting(key)}
    repairs += repeated_settings({key: events for key, events in by_key.items() if key in settings}, source)
    repairs += impossible_counts(settings, source)
    staging, before = _staging(by_key, stop, run, source, repairs)
    epochs, in_blocks = _epochs(window, source, repairs)
    evaluations = _evaluations(window, epochs, source, repairs)
    quality_key, scores = _scores(window, len(evaluations), source, repairs)
    init = _init(by_key, source, repairs)
    return LoggedRun(
        source=source,
        number=number,
        **{name: _text(settings, f"submission_{name}") for name in _SUBMISSION},
        settings=settings,
        seeds=tuple(event.value for event in by_key.get("seed", ())),
        claim=_claim(stop, source, repairs),
        init_s=init,
        run=run,
        staging=staging,
        staging_before_run=before,
        epochs=epochs,
        evaluations=evaluations,
        epochs_in_blocks=in_blocks,
        scores=scores,
        quality_key=quality_key,
        repairs=tuple(repairs),
        logged_ms=next((event.time_ms for event in log.events if is_time(event.time_ms)), None),
    )


def _by_key(log: Mllog, source: str, repairs: list[Repair]) -> dict[str, list[MllogEvent]]:
    """Return the events by key, without events that lack a key or a time."""
    by_key = log.by_key
    timeless: list[MllogEvent] = []
    endless: list[MllogEvent] = []
    times = [*map(_TIME_OF, log.events)]
    if times and not (all(map(math.isfinite, times)) and min(times) >= FIRST_MS and max(times) <= LAST_MS):
        wrong = [event for event in log.events if isinstance(event.key, str) and not is_time(event.time_ms)]
        timeless = [event for event in wrong if math.isfinite(event.time_ms)]
        endless = [event for event in wrong if not math.isfinite(event.time_ms)]
        timed = {key: [event for event in events if is_time(event.time_ms)] for key, events in by_key.items()}
        by_key = {key: events for key, events in timed.items() if events}
    keyless: list[MllogEvent] = []
    if sum(map(len, log.by_key.values())) < len(log.events):
        keyless = [event for event in log.events if not isinstance(event.key, str)]
    for kind, events in (("key_not_text", keyless), ("time_not_finite", endless), ("time_impossible", timeless)):
        if events:
            repairs.append(Repair(source, place(events), kind, f"{len(events)} events", "left out"))
    return by_key


def _ends(by_key: Events, source: str, repairs: list[Repair]) -> tuple[MllogEvent | None, MllogEvent | None]:
    """Return the events that start and stop the run."""
    starts, stops = by_key.get("run_start", []), by_key.get("run_stop", [])
    stop = stops[0] if stops else None
    before = [event for event in starts if stop is None or event.line < stop.line]
    start = before[-1] if before else None
    for key, events, chosen, which in (
        ("run_start", starts, start, "last before run_stop"),
        ("run_stop", stops, stop, "first"),
    ):
        if chosen is None:
            words = f"none before run_stop, {len(events)} after it" if events else "missing"
            repairs.append(Repair(source, key, f"{key}_missing", words, "the run has no time"))
        elif len(events) > 1:
            said = ", ".join(shown(event.details.get("status")) for event in events[:4])
            words = f"{len(events)} events" + (f" ({said})" if key == "run_stop" else "")
            done = f"the {which} is taken (line {chosen.line}), as in the official summary"
            repairs.append(Repair(source, place(events[1:]), f"{key}_repeated", words, done))
    return start, stop


def _span_of(start: MllogEvent | None, stop: MllogEvent | None, source: str, repairs: list[Repair]) -> Span | None:
    if start is None or stop is None:
        return None
    if stop.time_ms < start.time_ms:
        found = f"run_stop {(start.time_ms - stop.time_ms) / 1000:g} s before run_start"
        repairs.append(Repair(source, place([stop]), "run_stops_before_start", found, "the run has no time"))
        return None
    if stop.time_ms == start.time_ms:
        found = "run_stop has the time of run_start"
        repairs.append(Repair(source, place([stop]), "run_without_duration", found, "the run has no time"))
        return None
    return Span(start.time_ms, stop.time_ms)


def _within(
    by_key: Events, start: MllogEvent | None, stop: MllogEvent | None, source: str, repairs: list[Repair]
) -> dict[str, list[MllogEvent]]:
    """Return the events of intervals and scores between run_start and run_stop, by line."""
    first = start.line if start else 0
    last = stop.line if stop else math.inf
    timed = {key: by_key.get(key, []) for key in _TIMED}  # each in the order of lines
    early = [event for events in timed.values() for event in events[: bisect_left(events, first, key=_LINE_OF)]]
    if early:
        found = f"{len(early)} events of epochs, evaluations or scores, first {early[0].key}"
        repairs.append(Repair(source, place(early), "events_before_run_start", found, "left out"))
    return {
        key: events[bisect_right(events, first, key=_LINE_OF) : bisect_left(events, last, key=_LINE_OF)]
        for key, events in timed.items()
    }


_TIMED = (*(f"{name}_{end}" for name in ("epoch", "block", "eval") for end in ("start", "stop")), *QUALITIES)


def _paired(name: str, events: Events) -> Pairing:
    both = [*events.get(f"{name}_start", ()), *events.get(f"{name}_stop", ())]
    both.sort(key=_LINE_OF)
    return pair(name, both)


def _is_no_setting(key: str) -> bool:
    return key in QUALITIES or key.endswith(("_start", "_stop"))


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings.get(key)
    if value is None:
        return ""
    return clip(value.strip()) if isinstance(value, str) else shown(value)


def _claim(stop: MllogEvent | None, source: str, repairs: list[Repair]) -> Claim:
    if stop is None:
        return "incomplete"
    status = stop.details.get("status")
    if status is None:
        return "missing"
    if status not in ("success", "aborted"):
        repairs.append(Repair(source, place([stop]), "status_unknown", shown(status), "taken as aborted"))
    return "success" if status == "success" else "aborted"


def _init(by_key: Events, source: str, repairs: list[Repair]) -> float | None:
    starts, stops = by_key.get("init_start", []), by_key.get("init_stop", [])
    for key, events, which in (("init_start", starts, "earliest"), ("init_stop", stops, "first")):
        if len(events) > 1:
            done = f"the {which} is taken"
            repairs.append(Repair(source, place(events[1:]), f"{key}_repeated", f"{len(events)} events", done))
    if not (starts and stops):
        return None
    duration_ms = stops[0].time_ms - min(event.time_ms for event in starts)
    if duration_ms < 0:
        found = f"{-duration_ms / 1000:g} s before init_start"
        repairs.append(Repair(source, place(stops), "init_stops_before_start", found, "the start-up has no time"))
        return None
    return duration_ms / 1000


def _staging(
    by_key: Events, stop: MllogEvent | None, run: Span | None, source: str, repairs: list[Repair]
) -> tuple[Span | None, bool]:
    """Return the staging (intervals merged into one of the same length), and whether it began before the run."""
    last = stop.line if stop else math.inf
    events = {key: [event for event in by_key.get(key, ()) if event.line < last] for key in _STAGING}
    pairing = _paired("staging", events)
    repairs += pairing.repairs(source)
    if not pairing.spans:
        return None, False
    spans = sorted(pairing.spans, key=_START_OF)
    staging = spans[0]
    if len(spans) > 1:
        length_ms = sum(span.stop_ms - span.start_ms for span in spans)
        staging = Span(staging.start_ms, staging.start_ms + length_ms)
        done = "taken as one from the first start, as long as all together"
        repairs.append(Repair(source, "staging_start", "staging_repeated", f"{len(spans)} intervals", done))
    before = run is not None and staging.start_ms < run.start_ms
    if before and run is not None and staging.stop_ms > run.start_ms:
        found = f"begins {(run.start_ms - staging.start_ms) / 1000:g} s before run_start and ends after it"
        repairs.append(Repair(source, place(pairing.starts), "staging_across_run_start", found, "taken as before it"))
    return staging, before


_STAGING = ("staging_start", "staging_stop")


def _epochs(window: Events, source: str, repairs: list[Repair]) -> tuple[tuple[Span, ...], int]:
    """Return epochs, or blocks of epochs if no epochs are logged, and the number of epochs they represent."""
    pairing = _paired("epoch", window)
    repairs += pairing.repairs(source)
    count = len(pairing.spans)
    if window["epoch_start"] or window["epoch_stop"]:
        if window["block_start"]:
            found = f"{len(window['block_start'])} block_start beside {len(window['epoch_start'])} epoch_start"
            repairs.append(Repair(source, place(window["block_start"]), "blocks_and_epochs", found, "epochs are taken"))
    else:
        pairing = _paired("block", window)
        repairs += pairing.repairs(source)
        count = _epochs_in(pairing, source, repairs)
    if crossing := overlapping(pairing.spans):
        found = f"{crossing} of {len(pairing.spans)} begin before an earlier one ends"
        repairs.append(
            Repair(
                source, "epoch_start", "epochs_overlap", found, "kept; the analysis counts time that several cover once"
            )
        )
    return tuple(sorted(pairing.spans, key=_START_OF)), count


def _epochs_in(blocks: Pairing, source: str, repairs: list[Repair]) -> int:
    count, unknown = 0, []
    for start in blocks.starts:
        said = number_in(start.details.get("epoch_count"))
        if said is None or not 1 <= said <= LARGEST_COUNT or said != int(said):
            unknown.append(start)
        count += int(said) if said and 1 <= said <= LARGEST_COUNT else 1
    if unknown:
        found = f"{len(unknown)} blocks without a whole epoch_count"
        repairs.append(
            Repair(source, place(unknown), "block_without_count", found, "counted as whole epochs, at least 1")
        )
    return count


def _evaluations(window: Events, epochs: tuple[Span, ...], source: str, repairs: list[Repair]) -> tuple[Span, ...]:
    pairing = _paired("eval", window)
    repairs += pairing.repairs(source)
    spans = sorted(pairing.spans, key=_START_OF)
    if crossing := overlapping(spans):
        found = f"{crossing} of {len(spans)} begin before an earlier one ends"
        repairs.append(
            Repair(
                source,
                "eval_start",
                "evaluations_overlap",
                found,
                "kept; the analysis counts time that several cover once",
            )
        )
    if epochs and (free := outside(spans, epochs)):
        found = f"{free} of {len(spans)} do not lie within an epoch"
        done = "kept; the analysis takes from the epochs only what lies inside them"
        repairs.append(Repair(source, "eval_start", "evaluations_outside_epochs", found, done))
    return tuple(spans)


def _scores(window: Events, evaluations: int, source: str, repairs: list[Repair]) -> tuple[str, tuple[Score, ...]]:
    """Return the key of the quality, and the scores that are valid numbers."""
    logged = [key for key in QUALITIES if window[key]]
    if not logged:
        return "", ()
    key = logged[0]
    if len(logged) > 1:
        found = ", ".join(f"{len(window[one])} {one}" for one in logged)
        repairs.append(Repair(source, key, "qualities_differ", found, f"{key} is taken"))
    scores, wrong, infinite = [], [], []
    for event in window[key]:
        value = event.value
        if isinstance(value, float) and not math.isfinite(value):
            infinite.append(event)
        elif number_in(value) is None:
            wrong.append(event)
            continue
        scores.append(Score(event.line, event.time_ms, float(value), label_of(event)[0]))
    if wrong:
        found = f"{len(wrong)} {key}, first {shown(wrong[0].value)}"
        repairs.append(Repair(source, place(wrong), "score_not_a_number", found, "left out"))
    if infinite:
        found = f"{len(infinite)} {key}, first {shown(infinite[0].value)}"
        repairs.append(Repair(source, place(infinite), "score_not_finite", found, "kept; it meets no target"))
    if len(scores) > evaluations > 0:
        found = f"{len(scores)} scores, {evaluations} evaluations"
        repairs.append(Repair(source, key, "more_scores_than_evaluations", found, "all kept"))
    return key, tuple(scores)
