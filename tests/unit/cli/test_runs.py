"""Commands for single runs find them in a folder as well as by name."""

import pandas as pd
import pytest
from unit.record_factory import make_machine, make_record, write_records
from unit.refusals import refused, told

from hpcai.cli.main import call
from hpcai.core.errors import RecordError, ResultsError
from hpcai.core.table_files import write_parquet
from hpcai.measure.publish import NO_RECORDS
from hpcai.metrics.reproducibility import MEASURED, NO_RUN_SCORES, RAISE, RUN_SCORES
from hpcai.metrics.run_tables import RUN_TWICE
from hpcai.records.files import read_record, write_record


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


def write_study(folder, **plan):
    """Write a results folder with two runs of a point."""
    write_records([make_record(repetition=number, **plan) for number in (1, 2)], folder / "runs")
    return folder


def write_scores(folder, method):
    """Write what the stage `scores` tells of the power of the runs."""
    (folder / "tables").mkdir()
    runs = [read_record(path).run_id for path in sorted(folder.rglob("record.json"))]
    write_parquet(pd.DataFrame({"run_id": runs, "power_method": method}), folder / RUN_SCORES)


def test_runs_of_two_machines_are_judged_apart(tmp_path, capsys):
    folders = [write_study(tmp_path / name, machine=make_machine(name=name)) for name in ("east", "west")]
    assert call(["reproducibility", *map(str, folders)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("(2 runs)") == 2
    assert printed.index("default on east") < printed.index("default on west")


@pytest.mark.parametrize("again", ["", "runs"])
def test_a_folder_that_is_given_twice_is_refused(tmp_path, again):
    folder = write_study(tmp_path / "results")
    with refused(RecordError, RUN_TWICE):
        call(["reproducibility", str(folder), str(folder / again)])


def test_measured_power_counts_if_the_scores_of_the_runs_are_there(tmp_path, capsys):
    folder = write_study(tmp_path / "results")
    assert call(["reproducibility", str(folder)]) == 0
    without = capsys.readouterr().out
    assert RAISE["no_power"].find_in(without) is not None
    assert str(folder) in told(without, NO_RUN_SCORES)["folders"]
    write_scores(folder, MEASURED)
    for place in (folder, next(folder.rglob("record.json"))):
        assert call(["reproducibility", str(place)]) == 0
        counted = capsys.readouterr().out
        assert RAISE["no_power"].find_in(counted) is None
        assert NO_RUN_SCORES.find_in(counted) is None


def test_power_that_the_scores_did_not_take_does_not_count(tmp_path, capsys):
    folder = write_study(tmp_path / "results")
    write_scores(folder, "")
    assert call(["reproducibility", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert RAISE["no_power"].find_in(printed) is not None
    assert NO_RUN_SCORES.find_in(printed) is None


def test_scores_are_not_missed_where_the_power_is_declared(tmp_path, capsys):
    declared = make_machine(power={"node_power_w": "100 W", "source": "meter"})
    assert call(["reproducibility", str(write_study(tmp_path / "results", machine=declared))]) == 0
    assert NO_RUN_SCORES.find_in(capsys.readouterr().out) is None
