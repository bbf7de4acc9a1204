import json
from datetime import date
from pathlib import Path

import pytest
from unit.listing.list_factory import write_declared
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.record_factory import make_study, write_records
from unit.refusals import refused

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import RecordError
from hpcai.core.table_files import read_parquet, write_parquet
from hpcai.listing import own
from hpcai.listing.data_files import list_schema
from hpcai.listing.entries import make_id
from hpcai.listing.own import read_own
from hpcai.listing.packages import make_submission, read_submission, write_package, write_repository
from hpcai.listing.rounds import read_round_source
from hpcai.listing.sources import digest_files, kind_of, list_files
from hpcai.metrics.run_tables import run_tables
from hpcai.metrics.scores.trial_scores import score_trials

TODAY = date(2100, 1, 1)


def files_of(path: Path):
    return {file.path: file for file in digest_files(path, list_files(path))}


@pytest.fixture
def results(tmp_path) -> Path:
    """A results folder with records and their scores, without work of a sample."""
    import pandas as pd

    folder = tmp_path / "results"
    records = make_study(repeats=2)
    paths = write_records(records, folder / "runs")
    runs = run_tables(paths)["runs"]
    empty = [pd.DataFrame(columns=list(columns_of(name))) for name in ("work", "power")]
    (folder / "tables").mkdir()
    write_parquet(runs, folder / "tables" / "runs.parquet")
    write_parquet(score_trials(runs, *empty), folder / "tables" / "run_scores.parquet")
    return folder


def test_entries_of_own_runs_follow_from_their_records(results):
    content = read_own(results, "study", files_of(results), TODAY, "results")
    runs = read_parquet(results / "tables" / "runs.parquet")
    assert len(content.entries) == 2
    for entry in content.entries:
        rate = runs[runs["ranks"] == entry.units]["train_rate_samples_per_s"].median()
        assert entry.number("train_rate_samples_per_s").value == pytest.approx(rate)
        assert entry.basis == "measured"
        assert len(entry.runs) == 2


def test_a_score_that_does_not_follow_from_the_records_is_refused(results):
    file = results / "tables" / "run_scores.parquet"
    scores = read_parquet(file)
    write_parquet(scores.assign(train_rate_samples_per_s=scores["train_rate_samples_per_s"] * 1.001), file)
    with refused(RecordError, own.OTHER_NUMBERS, column="train_rate_samples_per_s"):
        read_own(results, "study", files_of(results), TODAY, "results")


def test_scores_of_other_runs_are_refused(results):
    file = results / "tables" / "run_scores.parquet"
    write_parquet(read_parquet(file).iloc[1:], file)
    with refused(RecordError, own.OTHER_RUNS):
        read_own(results, "study", files_of(results), TODAY, "results")


def test_a_round_gives_one_entry_per_result_with_its_logs_as_evidence(tmp_path):
    write_tree(tmp_path / "v3.0", logs=[log_text() for _ in range(10)])
    files = files_of(tmp_path / "v3.0")
    content = read_round_source(tmp_path / "v3.0", "round", files, TODAY)
    (entry,) = content.entries
    assert (entry.basis, entry.organisation, entry.scaling, len(entry.runs)) == ("published", "ORG", "strong", 10)
    assert {file.path for file in entry.evidence} == set(files)
    assert entry.verdict.status in ("valid", "not valid")
    assert content.machines[0].id == entry.machine


def test_identifiers_are_stable_and_safe():
    assert make_id("A b", "C/../d") == make_id("A b", "C/../d")
    assert make_id("a") != make_id("A")
    assert set(make_id("é<script>", "\u202e" * 300)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert len(make_id("x" * 500)) <= 100


def test_a_package_is_what_the_list_accepts_and_tells_its_size(tmp_path):
    source = write_declared(tmp_path)
    submission = make_submission(source, name="mine", organisation="Org", embargo=None, license_name="CC0")
    package = write_package(source, tmp_path / "mine", submission)
    assert (package.files, package.bytes) == (1, source.stat().st_size)
    assert kind_of(tmp_path / "mine") == "package"
    assert read_submission(tmp_path / "mine" / "submission.yaml") == submission


def test_nothing_without_a_result_becomes_a_package(tmp_path):
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    submission = make_submission(tmp_path / "empty", name="mine", organisation="O", embargo=None, license_name="CC0")
    with refused(RecordError, own.NO_RECORDS):
        write_package(tmp_path / "empty", tmp_path / "mine", submission)
    assert not (tmp_path / "mine").exists()


def test_a_repository_has_a_workflow_that_builds_strictly(tmp_path):
    write_repository(tmp_path / "list")
    workflow = (tmp_path / "list" / ".github" / "workflows" / "list.yml").read_text()
    assert "hpcai list build submissions" in workflow
    assert "--strict" in workflow


def test_the_schema_describes_every_field_of_an_entry():
    properties = list_schema()["$defs"]["Entry"]["properties"]
    assert json.dumps(properties)
    assert {"id", "numbers", "verdict", "evidence", "reproducibility"} <= set(properties)
