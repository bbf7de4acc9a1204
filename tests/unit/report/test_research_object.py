"""The crate names what is there, with its digest, and tells which run made it; nothing of the machine is in it."""

import json
from pathlib import Path

import pytest
from unit.record_factory import make_record, make_study
from unit.report.result_factory import write_results
from workflow_project import ROOT

from hpcai.core.errors import RecordError
from hpcai.core.files import file_sha256
from hpcai.report.research_object import CRATE, MAIN, NO_LICENCE, PROFILES, STEPS, write_crate

SOURCES = [ROOT / "workflow/Snakefile", ROOT / "workflow/rules/common.smk"]


def make_crate(folder: Path, **study: object) -> dict[str, dict[str, object]]:
    """Write a results folder with its crate, and return the crate's entities by id."""
    failed = make_record("failed", ranks_per_node=2, repetition=5)
    results = write_results(folder, [*make_study((1, 2), repeats=2), failed], full=False)
    (results / "report.html").write_text("<p>the report</p>")
    (results / "study.json").write_text(json.dumps({"name": "default", **study}))
    write_crate(results, sorted(results.glob("runs/**/record.json")), SOURCES)
    graph = json.loads((results / CRATE).read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph)
    return entities


def refers_to(value: object) -> set[str]:
    """Return every id that an entity refers to."""
    if isinstance(value, dict):
        return {value["@id"]} if set(value) == {"@id"} else set().union(*map(refers_to, value.values()))
    return set().union(*map(refers_to, value)) if isinstance(value, list) else set()


def test_every_file_of_the_crate_is_there_with_its_digest(tmp_path: Path) -> None:
    entities = make_crate(tmp_path)
    files = {name: one for name, one in entities.items() if "File" in one["@type"] and name != MAIN}
    assert {"study.json", "summary.json", "report.html", "tables/runs.parquet", "workflow/rules/common.smk"} <= set(
        files
    )
    assert all(one["sha256"] == file_sha256(tmp_path / "results" / name) for name, one in files.items())
    assert {one["@id"] for one in entities["./"]["hasPart"]} == {*files, MAIN}
    assert (tmp_path / "results" / MAIN).read_bytes() == SOURCES[0].read_bytes()


def test_nothing_is_referred_to_that_the_crate_does_not_describe(tmp_path: Path) -> None:
    entities = make_crate(tmp_path)
    asked = set().union(*(refers_to(one) for one in entities.values()))
    outside = {
        name for name in asked - set(entities) if not name.startswith(("http://schema.org/", "https://w3id.org/"))
    }
    assert outside == set()
    assert set(PROFILES) <= set(entities)


def test_each_run_is_an_action_with_its_record_and_its_end(tmp_path: Path) -> None:
    entities = make_crate(tmp_path)
    runs = [one for one in entities.values() if one["@id"].startswith("#run-") and one["@id"] != "#run-workflow"]
    assert len(runs) == 5
    failed = [one for one in runs if "error" in one]
    assert [one["@id"] for one in failed] == ["#run-cosmoflow_tiny/fp32/n1x2/r5"]
    assert failed[0]["actionStatus"].endswith("FailedActionStatus")
    assert failed[0]["result"] == {"@id": "runs/cosmoflow_tiny/fp32/n1x2/r5/record.json"}
    assert (failed[0]["startTime"], failed[0]["endTime"]) == ("2026-01-02T03:05:00+00:00", "2026-01-02T03:05:40+00:00")
    assert {one["@id"] for one in entities["#control-measure"]["object"]} == {one["@id"] for one in runs}
    assert len(entities["#organise"]["object"]) == len(STEPS)


def test_all_times_have_an_offset(tmp_path: Path) -> None:
    entities = make_crate(tmp_path)
    times = {(name, key): one[key] for name, one in entities.items() for key in ("startTime", "endTime") if key in one}
    assert {("#run-workflow", "startTime"), ("#organise", "startTime"), ("#organise", "endTime")} <= set(times)
    assert all(str(time).endswith("+00:00") for time in times.values())


@pytest.mark.parametrize("org", ["unnamed", "A Centre"])
def test_licence_and_agent_are_the_studys(tmp_path: Path, org: str) -> None:
    bare = make_crate(tmp_path / "bare", submission={"org": org})
    assert bare[bare["./"]["license"]["@id"]]["name"] == NO_LICENCE
    assert ("#agent" in bare) == (org != "unnamed")
    assert all(("agent" in bare[name]) == (org != "unnamed") for name in ("#organise", "#action-report"))
    stated = make_crate(tmp_path / "stated", licence="CC-BY-4.0")
    assert stated["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}


def test_no_path_of_the_machine_and_equal_folders_give_equal_crates(tmp_path: Path) -> None:
    make_crate(tmp_path / "one")
    make_crate(tmp_path / "other")
    one, other = ((tmp_path / name / "results" / CRATE).read_text() for name in ("one", "other"))
    assert str(tmp_path) not in one
    assert one == other


def test_a_damaged_record_is_named_and_no_crate_is_left(tmp_path: Path) -> None:
    results = write_results(tmp_path, make_study((1,), repeats=1), full=False)
    record = next(results.glob("runs/**/record.json"))
    record.write_text("{")
    with pytest.raises(RecordError, match=record.name):
        write_crate(results, [record], SOURCES)
    assert not (results / CRATE).exists()
