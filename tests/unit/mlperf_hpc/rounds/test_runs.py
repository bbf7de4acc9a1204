"""A log as a run: its values, and the handling of irregularities."""

import json
import math

import pytest
from unit.mlperf_hpc.log_factory import START_MS, line_of, log_events, log_text, point, start, stop, text_of

from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.parsers.mllog import parse_mllog

RUN_MS = START_MS + 20_000


def run_of(content, number=1):
    """Return the run of a log given as events, text or bytes."""
    if isinstance(content, list):
        content = text_of(content)
    if isinstance(content, str):
        content = content.encode()
    return read_run(parse_mllog(content, "result_1.txt"), "result_1.txt", number)


def kinds(run):
    return [repair.kind for repair in run.repairs]


def index_of(events, key, which=0):
    return [place for place, event in enumerate(events) if event["key"] == key][which]


def without(events, key, which=0):
    place = index_of(events, key, which)
    return events[:place] + events[place + 1 :]


def test_a_whole_log_needs_no_repair():
    run = run_of(log_text(epochs=3, epoch_s=50, eval_s=5, staging_s=12, extra_s=2, seed=77))
    assert run.repairs == ()
    assert (run.org, run.division, run.benchmark, run.status) == ("ORG", "closed", "cosmoflow", "onprem")
    assert run.claim == "success"
    assert run.init_s == 20
    assert run.run.duration_s == 12 + 3 * 50 + 2
    assert run.staging.duration_s == 12
    assert not run.staging_before_run
    assert [span.duration_s for span in run.epochs] == [50, 50, 50]
    assert [span.epoch for span in run.epochs] == [1, 2, 3]
    assert [span.duration_s for span in run.evaluations] == [5, 5, 5]
    assert run.epochs_in_blocks == 3
    assert run.quality_key == "eval_error"
    assert run.scores[-1].value < 0.124 < run.scores[-2].value
    assert run.seeds == (77,)
    assert run.number_of("train_samples") == 524288
    assert "eval_error" not in run.settings
    assert "run_start" not in run.settings


@pytest.mark.parametrize(
    ("benchmark", "key"),
    [("cosmoflow", "eval_error"), ("deepcam", "eval_accuracy"), ("oc20", "eval_error"), ("openfold", "eval_accuracy")],
)
def test_each_benchmark_has_its_quality(benchmark, key):
    run = run_of(log_text(benchmark, epochs=4))
    assert (run.quality_key, len(run.scores), run.repairs) == (key, 4, ())


def test_mxnet_logs_the_negative_error_as_accuracy():
    events = log_events()
    place = index_of(events, "eval_error")
    double = [*events[:place], point(events[place]["time_ms"], "eval_accuracy", -0.3, epoch_num=1), *events[place:]]
    run = run_of(double)
    assert run.quality_key == "eval_error"
    assert kinds(run) == ["qualities_differ"]


@pytest.mark.parametrize("origin", [0, 1, 7])
def test_epochs_are_counted_and_not_read_off_their_numbers(origin):
    run = run_of(log_text(epochs=5, first_epoch=origin))
    assert run.epochs_in_blocks == 5
    assert run.epochs[0].epoch == origin


def test_epoch_numbers_may_count_samples():
    events = log_events("openfold", epochs=2)
    for event in events:
        if "epoch_num" in event["metadata"]:
            event["metadata"]["epoch_num"] *= 10240
    run = run_of(events)
    assert [span.epoch for span in run.epochs] == [10240, 20480]
    assert run.repairs == ()


@pytest.mark.parametrize("number", ["3", None, math.nan, [1], True])
def test_epoch_numbers_that_are_none_are_listed_and_the_order_pairs(number):
    events = log_events(epochs=3)
    for event in events:
        if event["key"].startswith("epoch_"):
            event["metadata"]["epoch_num"] = number
    run = run_of(events)
    assert [span.epoch for span in run.epochs] == [None, None, None]
    assert [span.duration_s for span in run.epochs] == [100, 100, 100]
    assert kinds(run) == ["epoch_without_number"]
    assert "6 of 6" in run.repairs[0].found


def test_an_epoch_without_its_stop_is_no_epoch():
    run = run_of(without(log_events(epochs=4), "epoch_stop", 3))
    assert run.epochs_in_blocks == 3
    assert "epoch_without_stop" in kinds(run)


def test_a_lost_start_does_not_shift_the_pairs_after_it():
    events = without(log_events(epochs=4), "epoch_start", 1)
    run = run_of(events)
    assert [span.epoch for span in run.epochs] == [1, 3, 4]
    assert kinds(run) == ["epoch_without_start", "evaluations_outside_epochs"]


def test_a_lost_start_and_a_stale_one_are_not_paired():
    events = without(without(log_events(epochs=4), "epoch_stop", 0), "epoch_start", 2)
    run = run_of(events)
    assert [span.epoch for span in run.epochs] == [2, 4]
    assert {"epoch_without_stop", "epoch_without_start"} <= set(kinds(run))


def test_a_start_that_comes_again_replaces_the_first():
    events = log_events(epochs=2)
    place = index_of(events, "epoch_start")
    late = dict(events[place], time_ms=events[place]["time_ms"] + 40_000)
    run = run_of([*events[: place + 1], late, *events[place + 1 :]])
    assert [span.duration_s for span in run.epochs] == [60, 100]
    assert kinds(run) == ["epoch_without_stop"]


def test_a_stop_with_another_number_pairs_with_the_start_right_before_it():
    events = log_events(epochs=2)
    events[index_of(events, "epoch_stop", 1)]["metadata"]["epoch_num"] = 9
    run = run_of(events)
    assert run.epochs_in_blocks == 2
    assert kinds(run) == ["epoch_numbers_differ"]


def test_evaluations_may_overlap():
    base = log_events(epochs=1, epoch_s=1000)
    first = index_of(base, "eval_start")
    middle = [
        start(RUN_MS + 100_000, "eval_start", epoch_num=1),
        start(RUN_MS + 120_000, "eval_start", epoch_num=2),
        stop(RUN_MS + 160_000, "eval_stop", epoch_num=1),
        stop(RUN_MS + 190_000, "eval_stop", epoch_num=2),
    ]
    run = run_of(base[:first] + middle + base[first + 2 :])
    assert [span.duration_s for span in run.evaluations] == [60, 70]
    assert kinds(run) == ["evaluations_overlap"]


def test_several_evaluations_of_one_epoch_are_told_apart_by_their_steps():
    base = log_events("deepcam", epochs=1, epoch_s=1000)
    first = index_of(base, "eval_start")
    middle = [
        start(RUN_MS + 100_000, "eval_start", epoch_num=1, step_num=100),
        start(RUN_MS + 120_000, "eval_start", epoch_num=1, step_num=200),
        stop(RUN_MS + 190_000, "eval_stop", epoch_num=1, step_num=200),
        stop(RUN_MS + 200_000, "eval_stop", epoch_num=1, step_num=100),
    ]
    run = run_of(base[:first] + middle + base[first + 2 :])
    assert sorted(span.duration_s for span in run.evaluations) == [70, 100]
    assert {span.steps for span in run.evaluations} == {100, 200}


def test_evaluations_outside_epochs_count_and_are_listed():
    events = log_events(epochs=2)
    late = [
        start(events[-1]["time_ms"], "eval_start", epoch_num=3),
        stop(events[-1]["time_ms"], "eval_stop", epoch_num=3),
    ]
    run = run_of(events[:-1] + late + events[-1:])
    assert len(run.evaluations) == 3
    assert kinds(run) == ["evaluations_outside_epochs"]


def test_event_types_are_not_believed():
    events = log_events()
    for event in events:
        event["event_type"] = "INTERVAL_START"
    run = run_of(events)
    plain = run_of(log_text())
    assert (run.epochs, run.run, run.staging) == (plain.epochs, plain.run, plain.staging)
    assert kinds(run) == ["event_type_wrong"]


def test_blocks_stand_for_their_epochs():
    events = [event for event in log_events(epochs=4) if not event["key"].startswith("epoch_")]
    blocks = [
        start(RUN_MS + 30_000, "block_start", first_epoch_num=1, epoch_count=3),
        stop(RUN_MS + 330_000, "block_stop", first_epoch_num=1),
        start(RUN_MS + 330_000, "block_start", first_epoch_num=4, epoch_count=1),
        stop(RUN_MS + 430_000, "block_stop", first_epoch_num=4),
    ]
    place = index_of(events, "run_stop")
    run = run_of(events[:place] + blocks + events[place:])
    assert run.epochs_in_blocks == 4
    assert [span.duration_s for span in run.epochs] == [300, 100]
    assert kinds(run) == ["time_backwards"]


@pytest.mark.parametrize("count", [None, 0, "2", math.inf])
def test_a_block_without_its_count_is_listed(count):
    events = [event for event in log_events(epochs=1) if not event["key"].startswith("epoch_")]
    place = index_of(events, "eval_start")
    events.insert(place, start(RUN_MS + 30_000, "block_start", first_epoch_num=1, epoch_count=count))
    events.insert(-1, stop(RUN_MS + 130_000, "block_stop", first_epoch_num=1))
    run = run_of(events)
    assert (len(run.epochs), run.epochs_in_blocks) == (1, 1)
    assert "block_without_count" in kinds(run)


@pytest.mark.parametrize(
    ("status", "claim"), [("success", "success"), (None, "missing"), ("aborted", "aborted"), ("done", "aborted")]
)
def test_how_a_run_ended(status, claim):
    run = run_of(log_text(status=status))
    assert run.claim == claim
    assert kinds(run) == (["status_unknown"] if status == "done" else [])


@pytest.mark.parametrize("metadata", [None, "success", []])
def test_metadata_that_are_no_object_say_nothing(metadata):
    events = log_events()
    events[-1]["metadata"] = metadata
    run = run_of(events)
    assert run.claim == "missing"
    assert kinds(run) == ["metadata_missing"]


def test_without_run_stop_a_run_is_incomplete():
    run = run_of(log_events(epochs=3)[:-1])
    assert (run.claim, run.run, len(run.epochs)) == ("incomplete", None, 3)
    assert kinds(run) == ["run_stop_missing"]


def test_without_run_start_there_is_no_time():
    run = run_of(without(log_events(epochs=3), "run_start"))
    assert (run.claim, run.run, len(run.epochs)) == ("success", None, 3)
    assert kinds(run) == ["run_start_missing"]


def test_the_first_run_stop_ends_the_run():
    events = log_events(epochs=4, status="aborted", extra_s=1)
    second = stop(events[-1]["time_ms"] + 5000, "run_stop", status="success")
    run = run_of([*events, second])
    assert run.claim == "aborted"
    assert run.run.duration_s == 30 + 400 + 1
    assert kinds(run) == ["run_stop_repeated", "events_after_run_stop"]


def test_the_last_run_start_before_run_stop_begins_the_run():
    events = log_events(epochs=2)
    again = dict(events[index_of(events, "run_start")], time_ms=RUN_MS + 10_000)
    place = index_of(events, "epoch_start")
    run = run_of([*events[:place], again, *events[place:]])
    assert run.run.duration_s == 30 + 200 + 1 - 10
    assert "run_start_repeated" in kinds(run)


def test_what_is_logged_after_run_stop_is_no_part_of_the_run():
    events = log_events(epochs=2)
    end = events[-1]["time_ms"]
    more = [
        start(end + 1000, "epoch_start", epoch_num=3),
        start(end + 2000, "eval_start", epoch_num=3),
        stop(end + 3000, "eval_stop", epoch_num=3),
        point(end + 3000, "eval_error", 0.01, epoch_num=3),
        stop(end + 4000, "epoch_stop", epoch_num=3),
    ]
    run, plain = run_of(events + more), run_of(events)
    assert (run.epochs, run.evaluations, run.scores, run.run) == (
        plain.epochs,
        plain.evaluations,
        plain.scores,
        plain.run,
    )
    assert kinds(run) == ["events_after_run_stop"]
    assert run.repairs[0].found.startswith("5 events")


def test_what_is_logged_before_run_start_is_no_part_of_the_run():
    events = log_events(epochs=2)
    early = [point(START_MS, "eval_error", 0.01, epoch_num=0)]
    run = run_of(events[:2] + early + events[2:])
    assert len(run.scores) == 2
    assert kinds(run) == ["events_before_run_start"]


def test_an_epoch_cut_by_run_stop_is_listed():
    events = log_events(epochs=2)
    run = run_of([*events[:-2], events[-1], events[-2]])
    assert len(run.epochs) == 1
    assert {"epoch_without_stop", "events_after_run_stop"} <= set(kinds(run))


def test_staging_may_come_before_the_run():
    events = [event for event in log_events() if not event["key"].startswith("staging")]
    place = index_of(events, "init_stop")
    staging = [start(START_MS + 2000, "staging_start"), stop(START_MS + 9000, "staging_stop")]
    run = run_of(events[:place] + staging + events[place:])
    assert run.staging_before_run
    assert run.staging.duration_s == 7
    assert run.repairs == ()


def test_staging_across_run_start_is_listed():
    events = [event for event in log_events() if not event["key"].startswith("staging")]
    run_start = index_of(events, "run_start")
    events.insert(run_start, start(START_MS + 2000, "staging_start"))
    events.insert(run_start + 2, stop(RUN_MS + 9000, "staging_stop"))
    run = run_of(events)
    assert run.staging_before_run
    assert "staging_across_run_start" in kinds(run)


def test_several_stagings_are_added():
    events = log_events(staging_s=30)
    place = index_of(events, "epoch_start")
    more = [start(RUN_MS + 30_000, "staging_start"), stop(RUN_MS + 35_000, "staging_stop")]
    run = run_of(events[:place] + more + events[place:])
    assert run.staging.duration_s == 35
    assert run.staging.start_ms == RUN_MS
    assert "staging_repeated" in kinds(run)


def test_without_staging_keys_there_is_no_staging():
    run = run_of(log_text(staging_s=None))
    assert (run.staging, run.repairs) == (None, ())
    assert kinds(run_of(without(log_events(), "staging_stop"))) == ["staging_without_stop"]


def test_all_processes_may_log_their_start_out_of_order():
    events = log_events()
    place = index_of(events, "init_start")
    ranks = [start(START_MS + shift, "init_start") for shift in (900, 100, -400, 700)]
    run = run_of(events[:place] + ranks + events[place + 1 :])
    assert run.init_s == 20.4
    assert kinds(run) == ["time_backwards", "init_start_repeated"]
    assert "by up to 1.3 s" in run.repairs[0].found


def test_time_that_goes_backwards_is_listed_and_gives_no_negative_interval():
    events = log_events(epochs=3)
    events[index_of(events, "epoch_stop", 1)]["time_ms"] -= 500_000
    run = run_of(events)
    assert [span.epoch for span in run.epochs] == [1, 3]
    assert {"time_backwards", "epoch_stops_before_start"} <= set(kinds(run))
    events = log_events()
    events[-1]["time_ms"] = START_MS
    run = run_of(events)
    assert run.run is None
    assert "run_stops_before_start" in kinds(run)


def test_times_in_seconds_are_suspected_and_not_changed():
    events = log_events()
    for event in events:
        event["time_ms"] = event["time_ms"] // 1000
    run = run_of(events)
    assert kinds(run) == ["time_unlikely"]
    assert run.run.duration_s == pytest.approx(0.431)


@pytest.mark.parametrize("value", [None, "0.12", True, [0.1], 10**400])
def test_a_score_that_is_no_number_is_left_out(value):
    run = run_of(log_text(epochs=3, scores=[0.3, value, 0.1]))
    assert [score.value for score in run.scores] == [0.3, 0.1]
    assert kinds(run) == ["score_not_a_number"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_kept_and_listed(value):
    run = run_of(log_text(epochs=3, scores=[0.3, value, 0.1]))
    assert len(run.scores) == 3
    assert not math.isfinite(run.scores[1].value)
    assert kinds(run) == ["score_not_finite"]


def test_scores_of_several_ranks_are_listed():
    events = log_events(epochs=3)
    doubled = [copy for event in events for copy in ([event] * 2 if event["key"] == "eval_error" else [event])]
    run = run_of(doubled)
    assert len(run.scores) == 6
    assert kinds(run) == ["more_scores_than_evaluations"]


def test_settings_with_two_values_keep_the_first():
    events = log_events(global_batch_size=512)
    events.insert(10, point(START_MS + 1000, "global_batch_size", 1024))
    events.insert(11, point(START_MS + 1000, "train_samples", 524288))
    run = run_of(events)
    assert run.number_of("global_batch_size") in (512, 1024)
    assert (
        run.settings["global_batch_size"]
        == parse_mllog(text_of(events).encode(), "").events[index_of(events, "global_batch_size")].value
    )
    assert kinds(run) == ["global_batch_size_differs"]


def test_two_benchmarks_in_one_log_are_listed():
    events = log_events()
    run = run_of([*events[:1], point(START_MS, "submission_benchmark", "deepcam"), *events[1:]])
    assert run.benchmark == "cosmoflow"
    assert kinds(run) == ["submission_benchmark_differs"]


def test_values_that_change_in_the_run_are_no_settings_with_two_values():
    events = log_events(epochs=2)
    place = index_of(events, "epoch_stop")
    losses = [
        point(events[place]["time_ms"], "train_loss", value, step_num=step) for step, value in enumerate((3, 2, 1))
    ]
    assert run_of(events[:place] + losses + events[place:]).repairs == ()


def test_all_seeds_are_kept():
    events = log_events(seed=5)
    place = index_of(events, "seed")
    run = run_of([*events[:place], point(START_MS + 1000, "seed", 6), *events[place:]])
    assert run.seeds == (6, 5)
    assert run.repairs == ()


def test_lines_are_read_behind_prefixes_and_between_other_output():
    lines = log_text().splitlines()
    noisy = "".join(f"{rank}: {line}\nstep {rank} loss 0.3\n" for rank, line in enumerate(lines))
    run, plain = run_of(noisy), run_of(log_text())
    assert run.repairs == ()
    assert (run.run, run.epochs, run.settings) == (plain.run, plain.epochs, plain.settings)


def test_two_events_in_one_line_are_listed():
    lines = log_text().splitlines()
    place = next(index for index, line in enumerate(lines) if "dropout" in line)
    joined = [*lines[:place], lines[place] + lines[place + 1], *lines[place + 2 :]]
    run = run_of("\n".join(joined) + "\n")
    assert "dropout" not in run.settings
    assert kinds(run) == ["line_with_several_events"]


def test_line_ends_do_not_matter():
    plain = run_of(log_text())
    for end in ("\r\n", "\r"):
        assert run_of(log_text().replace("\n", end)) == plain
    cut = run_of(log_text().rstrip("\n"))
    assert kinds(cut) == ["no_final_newline"]
    assert cut.run == plain.run


def test_damaged_lines_are_one_repair_of_a_kind():
    lines = log_text(epochs=6).splitlines()
    damaged = [line[:-9] if "eval_stop" in line else line for line in lines]
    damaged.insert(3, ':::MLLOG {"key": "x"}')
    run = run_of("\n".join(damaged) + "\n")
    assert kinds(run)[:2] == ["line_unreadable", "line_without_fields"]
    assert run.repairs[0].found.startswith("6 lines")
    assert kinds(run)[2:] == ["eval_without_stop"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"\0" * 100, bytes(range(256)) * 8, log_text().encode("utf-16"), b":::MLLOG ", b"training starts\n"],
    ids=["empty", "blank", "zeros", "all-bytes", "utf-16", "mark", "words"],
)
def test_no_content_raises(content):
    run = run_of(content)
    assert run.claim == "incomplete"
    assert (run.run, run.epochs, run.scores) == (None, (), ())
    assert "no_events" in kinds(run)


def test_nul_bytes_do_not_hide_events():
    text = log_text().replace("\n", "\0\n", 4)
    run = run_of(text)
    assert run.claim == "success"


def test_keys_that_are_no_text_are_left_out():
    events = log_events()
    odd = [dict(events[0], key=key) for key in (None, 3, ["a"], {"b": 1})]
    run = run_of(odd + events)
    assert kinds(run) == ["key_not_text"]
    assert run.repairs[0].found == "4 events"


def test_times_that_are_no_numbers_are_left_out():
    lines = [line_of(event) for event in log_events()]
    bad = json.dumps(dict(log_events()[-1], time_ms=math.nan))
    run = run_of("\n".join([*lines, f":::MLLOG {bad}"]) + "\n")
    assert run.claim == "success"
    assert "time_not_finite" in kinds(run)
