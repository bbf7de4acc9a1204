"""`hpcai list` writes only where nothing of anybody else is lost, and says so before it reads anything."""

import sys
from pathlib import Path

import pytest
from unit.listing.list_factory import pack, write_declared, write_results
from unit.refusals import refused

from hpcai.__main__ import main
from hpcai.core.errors import ConfigError
from hpcai.listing import build, packages, reading, sources
from hpcai.listing.build import Wanted, build_site
from hpcai.listing.packages import request_beside
from hpcai.records import folders


@pytest.fixture
def unread(monkeypatch):
    """Fails if anything of a submission is read."""

    def read(*_):
        raise AssertionError("it was read")

    monkeypatch.setattr(packages, "_read_plain", read)


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def submit(monkeypatch, source: Path, output: Path) -> int:
    words = ["list", "submit", str(source), "--output", str(output), "--org", "An Org"]
    monkeypatch.setattr(sys, "argv", ["hpcai", *words])
    return main()


@pytest.mark.parametrize("place", ["work/results", "work/results/tables", "work/results/new", "work", "link"])
@pytest.mark.usefixtures("unread")
def test_a_package_is_never_written_over_or_into_its_submission(tmp_path, place):
    source = tmp_path / "work/results"
    write_results(source)
    (tmp_path / "link").symlink_to(source)
    before = files_below(tmp_path)
    with refused(ConfigError, packages.NOT_APART):
        packages.require_places(source, tmp_path / place)
    submission = packages.make_submission(source, name="mine", organisation="Org", embargo=None, license_name="CC0")
    with refused(ConfigError, packages.NOT_APART):
        packages.write_package(source, tmp_path / place, submission)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.usefixtures("unread")
def test_what_is_no_earlier_package_stays(tmp_path, monkeypatch, kind):
    source, output = write_declared(tmp_path / "raw"), tmp_path / "mine"
    if kind == "folder":
        output.mkdir()
        (output / "thesis.txt").write_text("years of work")
    else:
        output.write_text("years of work")
    before = files_below(tmp_path)
    message = folders.NO_FOLDER if kind == "file" else folders.NOT_EARLIER
    with refused(ConfigError, message):
        packages.require_places(source, output)
    assert submit(monkeypatch, source, output) == 1
    assert files_below(tmp_path) == before


def test_an_earlier_package_and_its_own_text_are_replaced(tmp_path, monkeypatch):
    source, output = write_declared(tmp_path / "raw"), tmp_path / "mine"
    assert submit(monkeypatch, source, output) == 0
    first = request_beside(output).read_text()
    write_declared(tmp_path / "raw", machine="Another cluster")
    assert submit(monkeypatch, source, output) == 0
    assert "Another cluster" in (output / "content/paper.yaml").read_text()
    assert request_beside(output).read_text() != first


@pytest.mark.parametrize("words", ["notes of somebody", "{} and a remark of its author", ""])
def test_a_text_of_somebody_beside_the_package_stays(tmp_path, monkeypatch, words):
    source, output = write_declared(tmp_path / "raw"), tmp_path / "mine"
    assert submit(monkeypatch, source, output) == 0
    request = request_beside(output)
    request.write_text(words.format(request.read_text()))
    before = files_below(tmp_path)
    with refused(ConfigError, packages.OWN_WORDS, place=str(request)):
        packages.require_places(source, output)
    assert submit(monkeypatch, source, output) == 1
    assert files_below(tmp_path) == before


def test_a_submission_that_is_not_there_is_called_missing(tmp_path):
    with refused(ConfigError, sources.MISSING, place=str(tmp_path / "nope")):
        pack(tmp_path / "nope", tmp_path / "in")


def test_a_file_in_place_of_the_site_stays(tmp_path):
    source, site = write_declared(tmp_path / "raw"), tmp_path / "site"
    site.write_text("years of work")
    with refused(ConfigError, build.NO_FOLDER, place=str(site)):
        build_site(Wanted(folders=(source,), site=site))
    assert site.read_text() == "years of work"


def test_a_cache_forgets_only_files_of_its_own(tmp_path):
    store = reading.Cache.open(tmp_path)
    own = tmp_path / f"{'a' * 12}-{'b' * 40}.json"
    for file in (own, tmp_path / "thesis.json"):
        file.write_text("{}")
    store.close([])
    assert not own.exists()
    assert (tmp_path / "thesis.json").exists()
