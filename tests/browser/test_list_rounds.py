"""The list of a published round in Chromium: what a newcomer asks of it, and the budgets of real pages."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from browser.checks import WIDE, missing_browser, open_browser
from browser.list_checks import ASSETS, LAPTOP, MOST_BYTES, MOST_S, Visit, check_site, ids_of, query_of
from playwright.sync_api import Browser

from hpcai.listing.build import Wanted, build_site
from hpcai.listing.entries import Edition, Ranking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser"),
]
DATA = Path(os.environ.get("HPCAI_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
ARCHIVE = DATA / "mlperf_hpc_v0.7.tar.xz"
PUBLISHED = Path(__file__).parents[2] / "config/published"
TODAY = date(2026, 11, 25)


@dataclass(frozen=True)
class Built:
    """The site of the round and of the declared results, with its edition."""

    folder: Path
    edition: Edition

    def ranking(self, kind: str, workload: str = "cosmoflow") -> Ranking:
        """Return the longest list of a kind and workload."""
        alike = [one for one in self.edition.rankings if one.kind == kind]
        alike = [one for one in alike if self.edition.by_id[one.places[0].entry].workload.startswith(workload)]
        return max(alike, key=lambda one: len(one.places))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if not ARCHIVE.exists():
        pytest.skip(f"{ARCHIVE.name} is not here: set HPCAI_SHARED_DATA to the folder of the published logs")
    folder = tmp_path_factory.mktemp("rounds") / "site"
    made = build_site(Wanted(folders=(ARCHIVE, PUBLISHED), site=folder, today=TODAY))
    return Built(folder, made.edition)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture
def visit(browser: Browser, built: Built) -> Iterator[Visit]:
    opened = Visit(browser, built.folder, LAPTOP)
    yield opened
    assert opened.problems == []
    opened.context.close()


def test_links_policy_and_hosts_hold_on_the_whole_site(built: Built) -> None:
    assert check_site(built.folder) == []
    pages = list(built.folder.rglob("*.html"))
    assert len(pages) > len(built.edition.entries)


def test_every_page_opens_without_a_message(visit: Visit, built: Built) -> None:
    for path in sorted(built.folder.rglob("*.html")):
        page = visit.open(path.relative_to(built.folder).as_posix())
        width, room, wide = page.evaluate(WIDE)
        assert width <= room, (path, wide)
        assert not wide, (path, wide)


def test_every_chart_answers_within_the_policy(visit: Visit, built: Built) -> None:
    # One round has no course over the years: its records are a table alone.
    for name in ("index.html", "scaling.html"):
        page = visit.open(name)
        figures = page.locator("figure.figure").all()
        assert figures
        for figure in figures:
            figure.scroll_into_view_if_needed()
            figure.locator(".live svg .mark-symbol path").first.wait_for()
            assert "answers" in (figure.get_attribute("class") or "")


def test_the_four_questions_are_answered_from_the_front_page(visit: Visit, built: Built) -> None:
    ranking = built.ranking("throughput_per_unit")
    leader = built.edition.by_id[ranking.places[0].entry]
    page = visit.open("index.html")
    row = page.locator(f'#answer tr:has(a[href="list/{ranking.id}.html"])').first
    text = row.inner_text()
    assert leader.family in text
    assert built.edition.machines_by_id[leader.machine].name in text
    assert "v0.7" in row.locator("td").nth(2).inner_text()
    row.locator('a[href$="#needed"]').click()
    assert urlsplit(page.url).fragment == "needed"
    assert str(ranking.quality_target) in page.inner_text("#needed")
    page.go_back()
    row.locator('a[href$="#cite"]').click()
    assert urlsplit(page.url).fragment == "cite"
    assert leader.id in page.inner_text("#cite")


def test_sorts_filters_and_goes_back(visit: Visit, built: Built) -> None:
    ranking = built.ranking("time_to_train")
    page = visit.open_list(ranking)
    everything = ids_of(page)
    assert everything == [place.entry for place in ranking.places][:50]
    page.click("th[data-column=scale] button")
    units = [built.edition.by_id[one].units or 0 for one in ids_of(page)]
    assert units == sorted(units, reverse=True)
    wanted = built.edition.by_id[everything[0]]
    page.select_option("[name=accelerator]", wanted.family)
    assert {built.edition.by_id[one].family for one in ids_of(page)} == {wanted.family}
    assert query_of(page) == {"sort": ["-scale"], "accelerator": [wanted.family]}
    kept, address = ids_of(page), page.url
    page.go_back()
    page.go_back()
    assert ids_of(page) == everything
    page.goto(address)
    page.wait_for_selector("html.interactive")
    assert ids_of(page) == kept


def test_compares_two_results_of_the_round(visit: Visit, built: Built) -> None:
    ranking = built.ranking("time_to_train")
    page = visit.open_list(ranking)
    chosen = [ranking.places[0].entry, ranking.places[-1].entry]
    for one in chosen:
        page.check(f"input[value={one}]")
    page.click("#compare-link")
    page.wait_for_selector("html.interactive")
    assert parse_qs(urlsplit(page.url).query)["results"] == [",".join(chosen)]
    heads = page.locator("#comparison tbody th").all_inner_texts()
    assert any("→" in head for head in heads)


def test_list_pages_keep_their_budget(browser: Browser, built: Built) -> None:
    shared = sum((built.folder / "assets" / name).stat().st_size for name in ASSETS)
    for ranking in built.edition.rankings:
        opened = Visit(browser, built.folder, LAPTOP)
        page = opened.open_list(ranking)
        read = opened.bytes
        # What else runs on the machine only adds to the time: the shortest of three is the page's own.
        times_s = [page.evaluate("performance.now()") / 1000]
        times_s += [opened.open_list(ranking).evaluate("performance.now()") / 1000 for _ in range(2)]
        own = [built.folder / "list" / f"{ranking.id}.{end}" for end in ("html", "js")]
        size = shared + sum(path.stat().st_size for path in own)
        opened.context.close()
        assert opened.problems == []
        assert size <= MOST_BYTES, ranking.id
        assert min(times_s) <= MOST_S, ranking.id
        assert read <= MOST_BYTES, ranking.id
