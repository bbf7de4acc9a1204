"""A site that is built again holds what its edition has, and nothing of what is gone; its links lead somewhere."""

from pathlib import Path

import pytest
from unit.listing.list_factory import DAY, pack, write_declared
from unit.listing.site_factory import make_edition

from hpcai.listing import rendering, site_files
from hpcai.listing.build import Wanted, build_site
from hpcai.listing.charts import Drawing, Sketch
from hpcai.listing.data_files import freeze
from hpcai.listing.entries import Difference, Edition
from hpcai.listing.pages import write_pages


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """To draw takes seconds, and no test here looks at a picture."""
    monkeypatch.setattr(Sketch, "draw", lambda *_: Drawing("<svg/>", 1, 1, ""))
    monkeypatch.setattr(rendering, "chart_library", str)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def without(edition: Edition, gone: str) -> Edition:
    """Return an edition without the entries of a machine, and without the lists of a benchmark."""
    entries = tuple(one for one in edition.entries if one.machine != gone)
    kept = {one.id for one in entries}
    rankings = tuple(
        one.model_copy(update={"places": tuple(place for place in one.places if place.entry in kept)})
        for one in edition.rankings
        if one.benchmark != "DeepCAM"
    )
    machines = tuple(one for one in edition.machines if one.id != gone)
    return Edition(**{**dict(edition), "entries": entries, "rankings": rankings, "machines": machines})


@pytest.mark.parametrize("changed", [None, frozenset()])
def test_a_site_built_again_is_as_one_built_anew(tmp_path, changed):
    before = make_edition(24)
    after = without(before, before.entries[0].machine)
    difference = Difference(before="2026-05", after="draft", added=(), removed=(), changed=())
    write_pages(before, tmp_path / "site", None, {"2026-04..draft": difference})
    write_pages(after, tmp_path / "site", changed, {"2026-05..draft": difference})
    write_pages(after, tmp_path / "new", None, {"2026-05..draft": difference})
    assert files_of(tmp_path / "site") == files_of(tmp_path / "new")


def test_a_withdrawn_result_leaves_no_file_behind(tmp_path):
    wanted = Wanted(folders=(tmp_path / "in",), site=tmp_path / "site", today=DAY)
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    other = pack(write_declared(tmp_path / "raw", "other", result="withdrawn"), tmp_path / "in")
    known = {entry.id for entry in build_site(wanted).edition.entries}
    other.rename(tmp_path / "away")
    (left,) = (entry.id for entry in build_site(wanted).edition.entries)
    (gone,) = known - {left}
    assert not [name for name in files_of(tmp_path / "site") if gone in name]
    assert len([name for name in files_of(tmp_path / "site") if left in name]) == 3


def test_what_a_damaged_state_forgot_is_removed(tmp_path):
    wanted = Wanted(folders=(tmp_path / "in",), site=tmp_path / "site", today=DAY)
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    other = pack(write_declared(tmp_path / "raw", "other", result="withdrawn"), tmp_path / "in")
    known = {entry.id for entry in build_site(wanted).edition.entries}
    (tmp_path / "site" / ".list-state.json").write_text("{")
    other.rename(tmp_path / "away")
    (gone,) = known - {entry.id for entry in build_site(wanted).edition.entries}
    assert not [name for name in files_of(tmp_path / "site") if gone in name]


def test_only_named_folders_lose_files(tmp_path):
    for place in ("list/a.html", "list/b.html", "own/c.html", "list/deep/d.html"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    site_files.remove_others(tmp_path, ["list", "missing"], ["list/a.html"])
    assert files_of(tmp_path) == {"list/a.html", "own/c.html", "list/deep/d.html"}


def test_every_file_of_a_frozen_edition_that_a_page_names_is_there(tmp_path):
    edition = make_edition(12, name="2026-05")
    freeze(edition, tmp_path / "editions")
    write_pages(edition, tmp_path, frozenset(), {})
    page = (tmp_path / "editions.html").read_text()
    named = [word.partition('"')[0] for word in page.split('href="')[1:] if word.startswith("editions/2026-05/")]
    assert len(named) == 4
    assert all((tmp_path / name).is_file() for name in named)
