"""Commands for single runs find them in a folder as well as by name."""

import pytest
from unit.record_factory import make_record
from unit.refusals import refused

from hpcai.cli.main import call
from hpcai.core.errors import ResultsError
from hpcai.measure.publish import NO_RECORDS
from hpcai.records.files import write_record


@pytest.fixture
def results(tmp_path):
    """Return a results folder with two runs of a point, and others that do not count: copies among them."""
    others = (
        "runs/b/v/n1x1/r1/attempts/20260101T000000Z-r1",
        "runs/b/v/n1x1/discarded/r3",
        "profiles/io/b/v/n1x1/r1",
        "hpc_ai500/b/logs/b/v/n1x1/r1",
        "weak/b/v/n1x1/i1",
    )
    for folder in ("runs/b/v/n1x1/r1", "runs/b/v/n1x1/r2", *others):
        record = make_record(repetition=int(folder[-1]))
        for path in (tmp_path / folder / "record.json", tmp_path / folder / "raw/record.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_record(record, path)
    return tmp_path


def test_reproducibility_of_a_folder_is_that_of_its_timed_records(results, capsys):
    named = [str(results / f"runs/b/v/n1x1/r{number}/record.json") for number in (1, 2)]
    printed = []
    for places in ([str(results)], [str(results / "runs/b")], named):
        assert call(["reproducibility", *places]) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert "of 100" in printed[0]


def test_the_export_of_a_results_folder_has_each_run_once(results, capsys):
    assert call(["export", "openmetrics", str(results)]) == 0
    walls = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hpcai_run_wall_seconds{")]
    assert len(walls) == 2


def test_a_folder_without_runs_is_refused(tmp_path):
    with refused(ResultsError, NO_RECORDS):
        call(["reproducibility", str(tmp_path / "nope")])
