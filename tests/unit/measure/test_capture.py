"""A capture is made or says why not; a run that broke down and a tool that left nothing are results."""

import pytest
from pydantic import ValidationError
from unit.record_factory import make_record
from unit.refusals import refused
from unit.training.training_plans import make_plan

from hpcai.config.plan_file import write_plan
from hpcai.core.errors import ConfigError
from hpcai.core.sealed import unseal
from hpcai.measure import capture as module
from hpcai.measure import publish
from hpcai.measure.capture import A_TIMED_RUN, capture
from hpcai.measure.inputs import Inputs
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.records.files import read_part, write_json
from hpcai.records.run import RAW_IF_MEASURED, Artefact, Capture

TOOL = Instrument("a tool", ("trace.json", "*.csv"), compute_capability="7.0")


@pytest.fixture
def inputs(tmp_path):
    plan = make_plan(2)
    plan = type(plan).model_validate({**plan.model_dump(mode="json"), "kind": "profiled", "profile": "timeline"})
    write_plan(plan, tmp_path / "plan.json")
    return Inputs((tmp_path / "plan.json",), tmp_path / "manifest.json", None)


@pytest.fixture
def captured(inputs, tmp_path, monkeypatch):
    """Capture with a tool that is found or missing, and a run that ends as a record says."""
    folder = tmp_path / "folder"

    def make(record=None, found=TOOL, is_there=False):
        def measure(*arguments):
            if arguments[-1] is TOOL:
                (folder / publish.RAW).mkdir(parents=True)
                write_json(TOOL.facts, folder / publish.RAW / publish.TOOL)
            return record

        monkeypatch.setattr(module, "find_instrument", lambda plan: found)
        monkeypatch.setattr(module, "measure", measure)
        monkeypatch.setattr(module, "published", lambda folder, plan: record if is_there else None)
        made = capture(inputs, folder, "horovodrun")
        assert read_part(Capture, folder / publish.CAPTURE) == made
        assert unseal((folder / publish.CAPTURE).read_bytes()).is_sealed
        return made

    return make


def left(*paths):
    files = tuple(Artefact(path=path, bytes=5, sha256="0" * 64) for path in paths)
    return make_record().model_copy(update={"artefacts": files})


def test_a_missing_tool_is_a_result(captured):
    made = captured(found=Missing("no such tool here"))
    assert (made.status, made.reason, made.raw) == ("not_measured", "no such tool here", ())


def test_a_broken_run_is_a_result(captured):
    record = make_record(outcome="failed")
    made = captured(record)
    assert made.status == "not_measured"
    assert f"profiled run failed (failed): {record.reason}" in made.reason


def test_raw_files_are_named_with_their_digest(captured):
    made = captured(left("trace.json", "a.csv", "output.log"))
    assert (made.status, made.tool, made.compute_capability) == ("measured", "a tool", "7.0")
    assert [one.path for one in made.raw] == ["raw/trace.json", "raw/a.csv"]


def test_a_tool_that_left_nothing_is_a_result(captured):
    assert captured(left("a.csv")).reason.startswith("a tool left no trace.json")


def test_what_was_captured_stays_when_the_tool_is_gone(captured):
    before = captured(left("trace.json"))
    assert captured(left("trace.json"), found=Missing("the module is not loaded"), is_there=True) == before


def test_a_timed_run_is_not_captured(tmp_path):
    write_plan(make_plan(1), tmp_path / "plan.json")
    with refused(ConfigError, A_TIMED_RUN):
        capture(Inputs((tmp_path / "plan.json",), tmp_path / "manifest.json", None), tmp_path, "horovodrun")


def test_a_capture_tells_one_story():
    with pytest.raises(ValidationError, match=RAW_IF_MEASURED.pattern):
        Capture(profile="io", run_id="b/v/n1x1/r1", tool="none", status="measured", reason="")
