"""A capture is made or says why not; a run that broke down and a tool that left nothing are results."""

import pytest
from pydantic import ValidationError
from unit.record_factory import make_record
from unit.training.training_plans import make_plan

from hpcai.config.load import write_plan
from hpcai.errors import ConfigError
from hpcai.measure import capture as module
from hpcai.measure.capture import capture
from hpcai.measure.instruments import Instrument, Missing
from hpcai.measure.supervise import Inputs
from hpcai.records import Artefact, Capture, read_part


@pytest.fixture
def inputs(tmp_path):
    plan = make_plan(2)
    plan = type(plan).model_validate({**plan.model_dump(mode="json"), "kind": "profiled", "profile": "timeline"})
    write_plan(plan, tmp_path / "plan.json")
    return Inputs(tmp_path / "plan.json", tmp_path / "manifest.json", None)


def captured(inputs, tmp_path, monkeypatch, record=None, found=None):
    monkeypatch.setattr(module, "find_instrument", lambda plan: found or Instrument("a tool", ("trace.json", "*.csv")))
    monkeypatch.setattr(module, "measure", lambda *arguments: record)
    made = capture(inputs, tmp_path / "folder", "horovodrun")
    assert read_part(Capture, tmp_path / "folder/capture.json") == made
    return made


def test_a_missing_tool_is_a_result(inputs, tmp_path, monkeypatch):
    made = captured(inputs, tmp_path, monkeypatch, found=Missing("no such tool here"))
    assert (made.status, made.reason, made.raw) == ("not_measured", "no such tool here", ())


def test_a_broken_run_is_a_result(inputs, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    record = make_record(outcome="failed")
    made = captured(inputs, tmp_path, monkeypatch, record)
    assert made.status == "not_measured"
    assert f"broke down (failed): {record.reason}" in made.reason


def test_raw_files_are_named_with_their_digest(inputs, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    files = [Artefact(path=path, bytes=5, sha256="0" * 64) for path in ("trace.json", "a.csv", "output.log")]
    record = make_record().model_copy(update={"artefacts": tuple(files)})
    made = captured(inputs, tmp_path, monkeypatch, record)
    assert made.status == "measured"
    assert [one.path for one in made.raw] == ["raw/trace.json", "raw/a.csv"]


def test_a_tool_that_left_nothing_is_a_result(inputs, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    file = Artefact(path="a.csv", bytes=5, sha256="0" * 64)
    made = captured(inputs, tmp_path, monkeypatch, make_record().model_copy(update={"artefacts": (file,)}))
    assert made.reason.startswith("a tool left no trace.json")


def test_a_timed_run_is_not_captured(tmp_path):
    write_plan(make_plan(1), tmp_path / "plan.json")
    with pytest.raises(ConfigError, match="found the plan of a timed run"):
        capture(Inputs(tmp_path / "plan.json", tmp_path / "manifest.json", None), tmp_path, "horovodrun")


def test_a_capture_tells_one_story():
    with pytest.raises(ValidationError, match="raw files if and only if"):
        Capture(profile="io", run_id="b/v/n1x1/r1", tool="none", status="measured", reason="")
