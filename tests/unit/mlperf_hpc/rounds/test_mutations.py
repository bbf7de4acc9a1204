"""The run of a log is read whatever happens to the log's lines, and losses are listed."""

import math

from hypothesis import given
from hypothesis import strategies as st
from unit.mlperf_hpc.log_factory import TARGETS, log_text

from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.mlperf_hpc.rounds.times import is_time
from hpcai.parsers.mllog import parse_mllog

PLAIN = {benchmark: log_text(benchmark, epochs=4).splitlines() for benchmark in TARGETS}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.just("1e400"),
    st.just(10**400),
    st.lists(st.integers(), max_size=2),
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["drop", "double", "swap", "cut", "garble", "replace"]), st.integers(0, 200), VALUES),
    min_size=1,
    max_size=12,
)


def edited(lines, edits):
    """Return lines of which some are dropped, doubled, swapped or damaged."""
    lines = [line.encode() for line in lines]
    for how, number, value in edits:
        if not lines:
            break
        place = number % len(lines)
        line = lines[place]
        if how == "drop":
            del lines[place]
        elif how == "double":
            lines.insert(place, line)
        elif how == "swap":
            lines[place], lines[-1] = lines[-1], line
        elif how == "cut":
            lines[place] = line[: number % (len(line) + 1)]
        elif how == "garble":
            middle = len(line) // 2
            lines[place] = line[:middle] + bytes([number]) + line[middle + 1 :]
        else:
            words = str(value).encode("utf-8", "replace")
            name = (b'"value": ', b'"time_ms": ', b'"epoch_num": ', b'"key": ', b'"metadata": ')[number % 5]
            lines[place] = line.replace(name, name + words + b', "was": ')
    return b"\n".join(lines) + b"\n"


@given(st.sampled_from(sorted(PLAIN)), EDITS)
def test_a_run_is_read_from_whatever_is_left(benchmark, edits):
    log = parse_mllog(edited(PLAIN[benchmark], edits), "x")
    run = read_run(log, "x", 1)
    spans = [*run.epochs, *run.evaluations, *([run.run] if run.run else []), *([run.staging] if run.staging else [])]
    assert all(span.duration_s >= 0 and math.isfinite(span.duration_s) for span in spans)
    assert run.init_s is None or run.init_s >= 0
    assert list(run.epochs) == sorted(run.epochs, key=lambda span: span.start_ms)
    assert (run.claim == "incomplete") is not any(event.key == "run_stop" for event in _dated(log))
    assert len({(one.kind, one.place) for one in run.repairs}) == len(run.repairs)
    if log.broken:
        assert any(one.kind.startswith("line_") for one in run.repairs)


def _dated(log):
    return [event for event in log.events if is_time(event.time_ms)]


@given(st.binary(max_size=400))
def test_binary_content_is_read(content):
    run = read_run(parse_mllog(content, "x"), "x", 1)
    assert run.claim == "incomplete"


@given(st.sampled_from(sorted(PLAIN)), st.integers(0, 10**6))
def test_a_truncated_log_is_incomplete(benchmark, place):
    text = ("\n".join(PLAIN[benchmark]) + "\n").encode()
    cut = text[: place % (len(text) - 2)]
    run = read_run(parse_mllog(cut, "x"), "x", 1)
    assert (run.claim, run.run) == ("incomplete", None)
    assert "run_stop_missing" in [one.kind for one in run.repairs]
