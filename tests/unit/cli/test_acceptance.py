"""`hpcai acceptance` tells scripts by its status, and people which nodes are bad and why."""

import sys

import numpy as np
import pytest
from unit.acceptance_factory import HOSTS, simulate

from hpcai.__main__ import main
from hpcai.core.files import file_sha256
from hpcai.metrics.acceptance import NO_LINK
from hpcai.records.acceptance import JUDGED, Accepted
from hpcai.records.files import read_part, write_sealed
from hpcai.report.own_pages import ACCEPTANCE_PAGE, write_acceptance


@pytest.fixture
def judged(tmp_path):
    """Judge simulated nodes, some of them slowed; return the file of the verdict."""

    def judge(slowed=None, pairs=3):
        (tmp_path / "acceptance").mkdir(exist_ok=True)
        measurements = tmp_path / "acceptance/measurements.json"
        write_sealed(simulate(np.random.default_rng(4), slowed, hosts=HOSTS[:12], pairs=pairs), measurements)
        write_acceptance(measurements, tmp_path)
        return tmp_path / "acceptance" / JUDGED

    return judge


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["hpcai", "acceptance", *map(str, words)])
    return main()


@pytest.mark.parametrize(("loss", "status"), [(0.0, 0), (0.11, 2), (0.3, 3)])
def test_the_status_is_the_verdict(judged, monkeypatch, capsys, loss, status):
    assert call(monkeypatch, judged({"n7": loss})) == status
    said = capsys.readouterr().out
    assert ("n7: " in said) == (status > 0)


def test_several_nodes_without_a_measured_link_do_not_pass(judged, monkeypatch, tmp_path, capsys):
    assert call(monkeypatch, judged(pairs=0)) == 2
    for told in (capsys.readouterr().out, (tmp_path / ACCEPTANCE_PAGE).read_text()):
        assert NO_LINK.find_in(told) == {"n": "12"}


def test_an_old_one_has_a_status_of_its_own(judged, monkeypatch):
    path = judged()
    assert call(monkeypatch, path, "--most-age", "1 h") == 0
    write_sealed(read_part(Accepted, path).model_copy(update={"ended_utc": "2026-01-01T00:00:00Z"}), path)
    assert call(monkeypatch, path, "--most-age", "1 h") == 4
    assert call(monkeypatch, path) == 0


@pytest.mark.parametrize("age", ["soon", "24 kg", ""])
def test_an_age_that_is_no_time_is_bad_input(judged, monkeypatch, capsys, age):
    assert call(monkeypatch, judged(), "--most-age", age) == 1
    assert "--most-age" in capsys.readouterr().err


def test_none_is_bad_input(monkeypatch, tmp_path, capsys):
    assert call(monkeypatch, tmp_path / "none.json") == 1
    assert "none.json" in capsys.readouterr().err


def test_table_page_and_history_lie_beside_the_verdict(judged, tmp_path):
    path = judged({"n7": 0.3})
    page = (tmp_path / ACCEPTANCE_PAGE).read_text()
    assert "n7" in page
    assert "broken" in page
    rows = (path.parent / "acceptance.csv").read_text().splitlines()
    assert rows[1].startswith("node,n7,all,broken")
    (kept,) = (path.parent / "history").iterdir()
    assert file_sha256(kept) == file_sha256(path)
