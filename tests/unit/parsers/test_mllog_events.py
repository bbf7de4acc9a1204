"""Events of an MLPerf log as a table."""

import math

import pytest
from unit.mlperf_hpc.log_factory import line_of, log_events, log_text, point
from unit.parsers.artefacts import foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.mllog import parse_mllog
from hpcai.parsers.mllog_events import COLUMNS, read_mllog_events
from hpcai.parsers.registry import read_artefact


def read(tmp_path, text):
    path = tmp_path / "result_1.txt"
    path.write_text(text)
    return read_mllog_events(path)


def test_each_event_is_a_row(tmp_path):
    events = log_events(epochs=2)
    reading = read(tmp_path, log_text(epochs=2))
    table = reading.table
    assert tuple(table.columns) == COLUMNS
    assert list(table["key"]) == [event["key"] for event in events]
    assert list(table["time_s"]) == [event["time_ms"] / 1000 for event in events]
    assert list(table["line"]) == list(range(1, len(events) + 1))
    assert (reading.is_whole, reading.coverage_ratio, reading.facts["events"]) == (True, 1.0, len(events))
    rows = table.set_index("key")
    assert rows.loc["train_samples", "value"] == 524288
    assert rows.loc["submission_benchmark", "text"] == "cosmoflow"
    assert rows.loc["cache_clear", "text"] == "true"
    assert rows.loc["opt_learning_rate_decay_factor", "text"] == "[0.5, 0.25, 0.125, 0.0625]"
    assert rows.loc["run_stop", "status"] == "success"
    assert list(rows.loc["epoch_stop", "epoch_num"]) == [1, 2]
    assert rows["value"].dtype == rows["epoch_num"].dtype == "float64"


def test_the_reader_is_found_by_the_content(tmp_path):
    path = tmp_path / "unknown"
    path.write_text("training starts\n" + log_text())
    assert read_artefact(path).tool == "MLPerf log"


def test_what_could_not_be_read_is_said(tmp_path):
    lines = log_text().splitlines()
    text = "\n".join([lines[0] + lines[1], lines[2][:-5], *lines[3:], line_of(point(1, "loss", math.nan))])
    reading = read(tmp_path, text)
    assert len(reading.table) == len(lines) - 1
    assert len(reading.reasons) == 2
    assert reading.reasons[0].startswith("line 2: ")
    assert "more than one event" in reading.reasons[1]
    assert reading.coverage_ratio == len(reading.table) / (len(reading.table) + 2)
    assert math.isnan(reading.table["value"].iloc[-1])


def test_foreign_files_and_logs_without_events_are_refused(tmp_path):
    for path in foreign(tmp_path).values():
        with pytest.raises(ParseError, match="expected an MLPerf log"):
            read_mllog_events(path)
    with pytest.raises(ParseError, match="none of them an event"):
        read(tmp_path, ":::MLLOG {\n")
    with pytest.raises(ParseError, match="No such file"):
        read_mllog_events(tmp_path / "nowhere")


def test_a_time_beyond_all_floats_is_a_broken_line():
    log = parse_mllog(f':::MLLOG {{"time_ms": {10**400}, "key": "a", "value": 1, "metadata": {{}}}}\n'.encode(), "x")
    assert (log.events, [line.kind for line in log.broken]) == ((), ["fields"])
