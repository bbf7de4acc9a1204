import csv
import json
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from unit.listing.list_factory import pack, write_declared
from unit.listing.site_factory import make_edition
from unit.mlperf_hpc.analysis.forecast_rounds import all_rounds, frames_of
from unit.refusals import refused

from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.table_files import read_parquet
from hpcai.listing import build, data_files, reading
from hpcai.listing.build import Built, Wanted, build_site
from hpcai.listing.content import Content, PastResult
from hpcai.listing.data_files import ATOM
from hpcai.listing.entries import Edition, Reason, Refusal, make_id
from hpcai.listing.forecasts import KEY, forecast_results
from hpcai.records import folders

TODAY = date(2026, 11, 25)


@pytest.fixture(autouse=True)
def no_pages(monkeypatch):
    """The pages have tests of their own."""
    written = []

    def write_pages(edition, folder, changed, differences):
        written.append((changed, dict(differences)))
        (folder / "index.html").write_text("", encoding="utf-8")

    monkeypatch.setattr("hpcai.listing.pages.write_pages", write_pages)
    return written


def made(folder: Path, **changes: object) -> Built:
    settings = {"folders": (folder / "in",), "site": folder / "site", "today": TODAY, **changes}
    return build_site(Wanted(**settings))


def test_a_site_has_the_same_entries_as_json_csv_parquet_and_in_its_feed(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    entry = made(tmp_path).edition.entries[0]
    data = tmp_path / "site" / "data"
    listed = Edition.model_validate_json((data / "list.json").read_bytes())
    csv, parquet = pd.read_csv(data / "entries.csv"), read_parquet(data / "entries.parquet")
    numbers = read_parquet(data / "numbers.parquet").set_index("quantity")
    feed = ElementTree.fromstring((tmp_path / "site" / "feed.xml").read_bytes())
    assert [one.id for one in listed.entries] == list(csv["id"]) == list(parquet["id"]) == [entry.id]
    assert numbers.loc["train_rate_samples_per_s", ["value", "unit"]].tolist() == [1000.0, "samples/s"]
    assert feed.findtext(f"{{{ATOM}}}entry/{{{ATOM}}}id").endswith(entry.id)
    assert json.loads((data / "result" / f"{entry.id}.json").read_bytes())["submission"] == "paper"
    assert json.loads((data / "schema.json").read_bytes())["$defs"]["Entry"]["properties"]["id"]["pattern"]


def test_only_what_changed_is_read_and_written_again(tmp_path, no_pages):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    first = made(tmp_path)
    again = made(tmp_path)
    pack(write_declared(tmp_path / "raw", "other", rate=2000.0), tmp_path / "in")
    more = made(tmp_path)
    new = {one.id for one in more.edition.entries} - {one.id for one in first.edition.entries}
    assert (first.read, again.read, more.read) == (("paper",), (), ("other",))
    assert len(no_pages) == 2  # the build without a change wrote nothing
    assert {page for page in no_pages[-1][0] if page.startswith("result/")} == {f"result/{one}" for one in new}


def test_what_is_gone_leaves_the_site(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    other = pack(write_declared(tmp_path / "raw", "other"), tmp_path / "in")
    made(tmp_path)
    other.rename(tmp_path / "away")
    left = made(tmp_path)
    files = [file.stem for file in (tmp_path / "site" / "data" / "result").iterdir()]
    assert files == [one.id for one in left.edition.entries]
    assert len(files) == 1


def test_an_embargoed_entry_stays_out_until_its_day(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in", embargo=TODAY + timedelta(days=1))
    before = made(tmp_path)
    site = "".join(file.read_text("utf-8", "replace") for file in (tmp_path / "site").rglob("*.*") if file.is_file())
    after = made(tmp_path, today=TODAY + timedelta(days=1))
    assert (before.embargoed, len(before.edition.entries), len(after.edition.entries)) == (("paper",), 0, 1)
    assert "paper" not in site


def test_a_frozen_edition_is_never_written_again(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    made(tmp_path, freeze="2026-10")
    with refused(ConfigError, data_files.FROZEN):
        made(tmp_path, freeze="2026-10")
    with refused(ConfigError, data_files.BAD_EDITION):
        made(tmp_path, freeze="2026-12")
    listed = tmp_path / "site" / "editions" / "2026-10" / "entries.csv"
    listed.write_text(listed.read_text() + "\n")
    with refused(RecordError, folders.CHANGED):
        made(tmp_path)


def test_the_difference_between_editions_names_added_and_changed_entries(tmp_path, no_pages):
    source = write_declared(tmp_path / "raw")
    pack(source, tmp_path / "in")
    before = made(tmp_path, freeze="2026-10")
    pack(write_declared(tmp_path / "raw", rate=1500.0), tmp_path / "in")
    pack(write_declared(tmp_path / "raw", "other"), tmp_path / "in")
    after = made(tmp_path)
    difference = no_pages[-1][1]["2026-10..draft"]
    rates = [one for one in difference.changed if one.field == "train_rate_samples_per_s"]
    assert [(one.before, one.after) for one in rates] == [(1000.0, 1500.0)]
    assert len(difference.added) == len(after.edition.entries) - len(before.edition.entries) == 1


def test_bases_and_kinds_of_data_are_never_ranked_together(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    pack(write_declared(tmp_path / "raw", "made", dataset="imagenet (generated)"), tmp_path / "in")
    edition = made(tmp_path).edition
    for ranking in edition.rankings:
        members = [edition.by_id[place.entry] for place in ranking.places]
        assert {(one.basis, one.data, one.dataset) for one in members} == {
            (ranking.basis, ranking.data, ranking.dataset)
        }
    assert {ranking.data for ranking in edition.rankings} == {"official", "other"}


def test_a_folder_with_other_files_is_no_site(tmp_path):
    pack(write_declared(tmp_path / "raw"), tmp_path / "in")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "thesis.tex").write_text("")
    with refused(ConfigError, build.NOT_A_SITE):
        made(tmp_path)


@pytest.mark.parametrize("sign", data_files.FORMULA)
def test_no_text_of_a_csv_file_is_a_formula(tmp_path, sign):
    hostile = sign + "HYPERLINK('https://example.org')"
    edition = make_edition(12, organisations=[hostile])
    entries = tuple(
        one.model_copy(update={"organisation": hostile, "system": hostile, "quality_target": -1.0})
        for one in edition.entries
    )
    reason = Reason(code="x", text=hostile)
    refusal = Refusal(id="r", submission=hostile, place=hostile, reasons=(reason,))
    data_files.write_tables(edition.model_copy(update={"entries": entries, "refused": (refusal,)}), tmp_path)
    for file in tmp_path.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if cell.startswith(data_files.FORMULA) and not is_number(cell)]
    listed = pd.read_csv(tmp_path / "entries.csv")
    assert set(listed["organisation"]) == {f"'{hostile}".replace("\r", " ")}
    assert set(listed["quality_target"]) == {-1.0}
    assert set(read_parquet(tmp_path / "entries.parquet")["organisation"]) == {hostile}
    assert {one.organisation for one in Edition.model_validate_json((tmp_path / "list.json").read_bytes()).entries} == {
        hostile
    }


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_forecasts_of_a_round_from_the_one_before_stand_beside_its_results(tmp_path, monkeypatch):
    results, systems = frames_of(all_rounds(("v0.7", "v1.0")))
    families = dict(zip(systems["submission"], systems["family"], strict=True))
    rows = results.astype(object).where(results.notna(), None).to_dict("records")
    past = tuple(
        PastResult(entry=make_id(*(one[name] for name in KEY)), family=families[one["submission"]], row=one)
        for one in rows
    )
    calls = []

    def forecast(found):
        calls.append(found)
        return forecast_results(found)

    monkeypatch.setattr("hpcai.listing.forecasts.forecast_results", forecast)
    for _ in range(2):
        store = reading.Cache.open(tmp_path)
        found = reading.forecast_contents([Content(past=past)], store, TODAY)
        store.close([])
    later = {one.entry for one in past if one.row["origin"] == "v1.0"}
    assert {one.entry for one in found.predictions} == later
    assert {one.made_from for one in found.predictions} == {"v0.7"}
    assert all(one.number.low < one.number.value < one.number.high for one in found.predictions)
    assert len(calls) == 1
    hidden = Content(past=past[-1:], embargo=TODAY + timedelta(days=1))
    assert reading.forecast_contents([hidden], reading.Cache.open(tmp_path), TODAY).predictions == ()
