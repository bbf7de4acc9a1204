"""The list in Chromium, opened from files: sorting, filters, comparison, permalinks, the back button, budgets."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browser.checks import WIDE, missing_browser, open_browser
from browser.list_checks import ASSETS, LAPTOP, MOST_BYTES, MOST_S, ROWS, Visit, check_site, ids_of, query_of
from playwright.sync_api import Browser
from unit.listing.site_factory import MARKUP, make_edition

from hpcai.listing.entries import Change, Difference, Edition, Entry, Ranking
from hpcai.listing.pages import write_pages
from hpcai.metrics.statistics.significance import compare_samples, correct_holm

pytestmark = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
DATA = ("data/", "editions/", "feed.xml", "CITATION.cff")
"""Files of the site that `hpcai.listing.build` writes."""
VIEWS: dict[str, dict[str, Any]] = {
    "laptop": LAPTOP,
    "phone": {"viewport": {"width": 320, "height": 640}},
    "dark": {**LAPTOP, "color_scheme": "dark"},
    "without scripts": {**LAPTOP, "java_script_enabled": False},
}


@pytest.fixture(scope="module")
def edition() -> Edition:
    return make_edition(100)


@pytest.fixture(scope="module")
def site(edition: Edition, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(edition, tmp_path_factory.mktemp("site"))


def _build(edition: Edition, folder: Path) -> Path:
    first = edition.entries[0].id
    changed = (Change(entry=first, field="verdict", before=MARKUP, after=None),)
    difference = Difference(before="2026-05", after="draft", added=(first,), removed=("gone",), changed=changed)
    write_pages(edition, folder, None, {"2026-05..draft": difference})
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture
def visit(browser: Browser, site: Path) -> Iterator[Visit]:
    opened = Visit(browser, site, LAPTOP)
    yield opened
    assert opened.problems == []
    opened.context.close()


def _ranking(edition: Edition, kind: str = "time_to_train", benchmark: str = "CosmoFlow") -> Ranking:
    alike = [one for one in edition.rankings if (one.kind, one.benchmark) == (kind, benchmark)]
    return max(alike, key=lambda one: len(one.places))


def test_links_and_policy_hold_on_every_page(site: Path, tmp_path: Path) -> None:
    assert check_site(site, DATA) == []
    copy = tmp_path / "site"
    shutil.copytree(site, copy)
    next((copy / "machine").glob("*.html")).unlink()
    index = copy / "index.html"
    index.write_text(index.read_text().replace("<main", '<p style="x" onclick="y"><script>1</script><main', 1))
    found = "\n".join(check_site(copy, DATA))
    assert all(word in found for word in ("leads nowhere", "style", "onclick", "script without a file"))


@pytest.mark.parametrize(
    "view", [view if view == "phone" else pytest.param(view, marks=pytest.mark.slow) for view in VIEWS]
)
def test_pages_are_whole_in_every_view(view: str, browser: Browser, site: Path, edition: Edition) -> None:
    hostile = next(entry for entry in edition.entries if entry.organisation == MARKUP)
    places = [path.name for path in site.glob("*.html")]
    places += [f"list/{_ranking(edition).id}.html", f"result/{hostile.id}.html", f"machine/{hostile.machine}.html"]
    places += [str(next((site / "organisation").glob("*.html")).relative_to(site)), "difference/2026-05..draft.html"]
    opened = Visit(browser, site, VIEWS[view])
    for place in places:
        page = opened.open(place)
        width, room, wide = page.evaluate(WIDE)
        assert width <= room, (place, wide)
        assert not wide, (place, wide)
        assert "owned" not in page.title() or MARKUP[:20] in page.title()
        assert not page.query_selector_all("main img:not(.drawn), main bdi *"), place
    assert opened.problems == []
    opened.context.close()


def test_foreign_text_is_text(visit: Visit, edition: Edition) -> None:
    hostile = next(entry for entry in edition.entries if entry.organisation == MARKUP)
    page = visit.open(f"result/{hostile.id}.html")
    assert page.inner_text("h1").startswith(hostile.title[:20])
    ranking = next(one for one in edition.rankings if hostile.id in {place.entry for place in one.places})
    page = visit.open_list(ranking, "?q=onerror")
    assert page.locator(ROWS).count() > 0
    assert MARKUP in page.inner_text(f"{ROWS} >> nth=0")
    assert page.locator("main img").count() == 0


def test_rows_with_and_without_scripts_are_the_same(browser: Browser, site: Path, edition: Edition) -> None:
    ranking = _ranking(edition, "vflops")
    texts = []
    for view in (LAPTOP, VIEWS["without scripts"]):
        opened = Visit(browser, site, view)
        page = opened.open(f"list/{ranking.id}.html")
        page.wait_for_selector("html.interactive" if view is LAPTOP else "#list")
        cells = "rows => rows.map((row) => [...row.cells].slice(0, 9).map((cell) => cell.textContent.trim()))"
        texts.append(page.eval_on_selector_all(ROWS, cells))
        opened.context.close()
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10


def test_sorts_and_the_address_keeps_it(visit: Visit, edition: Edition) -> None:
    ranking = _ranking(edition)
    page = visit.open_list(ranking)
    assert ids_of(page)[:5] == [place.entry for place in ranking.places][:5]
    assert page.get_attribute("th[data-column=value]", "aria-sort") == "ascending"
    page.focus("th[data-column=scale] button")
    page.keyboard.press("Enter")
    assert page.get_attribute("th[data-column=scale]", "aria-sort") == "descending"
    assert page.get_attribute("th[data-column=value]", "aria-sort") is None
    units = [edition.by_id[one].units for one in ids_of(page)]
    known = [one for one in units if one is not None]
    assert known == sorted(known, reverse=True)
    assert page.inner_text(f"{ROWS}:first-child td:nth-child(5)") == f"{known[0]:,}"
    assert query_of(page) == {"sort": ["-scale"]}
    before = ids_of(page)
    page.reload()
    page.wait_for_selector("html.interactive")
    assert ids_of(page) == before


def test_filters_and_the_back_button(visit: Visit, edition: Edition) -> None:
    ranking = _ranking(edition)
    wanted = edition.by_id[ranking.places[3].entry]
    page = visit.open_list(ranking)
    everything = ids_of(page)
    page.select_option("[name=accelerator]", wanted.family)
    page.select_option("[name=round]", wanted.round)
    found = [edition.by_id[one] for one in ids_of(page)]
    assert wanted in found
    assert all((one.family, one.round) == (wanted.family, wanted.round) for one in found)
    assert query_of(page) == {"accelerator": [wanted.family], "round": [wanted.round]}
    page.fill("[name=from]", str(wanted.units))
    page.press("[name=from]", "Tab")
    assert wanted in [edition.by_id[one] for one in ids_of(page)]
    assert all((edition.by_id[one].units or 0) >= (wanted.units or 0) for one in ids_of(page))
    page.go_back()
    assert [edition.by_id[one] for one in ids_of(page)] == found
    page.go_back()
    page.go_back()
    assert ids_of(page) == everything
    assert page.input_value("[name=accelerator]") == ""
    page.go_forward()
    assert {edition.by_id[one].family for one in ids_of(page)} == {wanted.family}


def test_what_nothing_fits_says_so_and_other_lists_keep_filters(visit: Visit, edition: Edition) -> None:
    page = visit.open_list(_ranking(edition), "?q=zzzz&year=2021")
    assert page.is_visible("#list-none")
    assert page.inner_text("#list-status").startswith("0 of")
    assert query_of(page) == {"q": ["zzzz"], "year": ["2021"]}
    link = page.locator("a[data-keeps]", has_text="DeepCAM").first
    assert parse_qs(urlsplit(link.get_attribute("href") or "").query) == {"q": ["zzzz"], "year": ["2021"]}
    link.click()
    page.wait_for_selector("html.interactive")
    assert page.input_value("[name=q]") == "zzzz"
    page.click("#filters button[type=reset]")
    assert page.locator(ROWS).count() > 0


def test_invalid_results_come_last_without_a_place(visit: Visit, edition: Edition) -> None:
    ranking = next(one for one in edition.rankings if 3 < len(one.places) <= 50 and one.places[-1].place is None)
    page = visit.open_list(ranking)
    ranks = page.eval_on_selector_all(f"{ROWS} .rank", "cells => cells.map((cell) => cell.textContent)")
    valid = [place.place for place in ranking.places if place.place is not None]
    assert ranks == [str(one) for one in valid] + ["not valid"] * (len(ranking.places) - len(valid))


def _times(entry: Entry) -> list[float]:
    return [run.time_s for run in entry.runs if run.time_s is not None]


def test_compares_as_the_library_does(visit: Visit, edition: Edition) -> None:
    ranking = _ranking(edition)
    page = visit.open_list(ranking)
    chosen = [ranking.places[0].entry, ranking.places[1].entry, ranking.places[9].entry]
    for one in chosen:
        page.check(f"input[value={one}]")
    page.click("#compare-link")
    page.wait_for_selector("html.interactive")
    assert query_of(page)["results"] == [",".join(chosen)]
    cells = "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    rows = page.eval_on_selector_all("tr:has(th:text-matches('time to train'))", cells)
    # Significant differences stand first; the pairs are those of the library in order of their letters.
    tests = sorted(row for row in rows if "→" in row[0])
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = [compare_samples(_times(edition.by_id[chosen[a]]), _times(edition.by_id[chosen[b]])) for a, b in pairs]
    corrected = correct_holm([one.p_value for one in found])
    assert len(tests) == len(pairs)
    for row, one, p in zip(tests, found, corrected, strict=True):
        assert row[1].startswith(f"×{one.ratio:.3g}"[:4])
        assert row[2].startswith("significant") == one.is_significant(p)
        assert f"p = {one.p_permutation:.2g}"[:7] in row[3]
    shown = page.locator("#comparison h3").all_inner_texts()
    assert [text.split(" (")[0] for text in shown] in (
        ["Significant differences", "No significant difference"], ["Significant differences"],
        ["No significant difference"],
    )  # fmt: skip
    page.go_back()
    page.wait_for_selector("html.interactive")
    assert page.is_checked(f"input[value={chosen[0]}]")


def test_statistics_are_those_of_the_library(visit: Visit) -> None:
    page = visit.open("compare.html")
    samples = [
        ([10.0, 11, 12], [10.5, 11.5, 12.5, 13]), ([5, 5.1, 5.2, 5.3, 5.15], [6, 6.1, 6.2, 6.3, 6.15]),
        ([1, 1, 1, 1], [1, 1, 1, 1]), ([1, 1, 1], [2, 2, 2]), ([100, 140, 90, 120, 130, 80], [95, 91, 93, 99, 92, 94]),
    ]  # fmt: skip
    for base, new in samples:
        own = compare_samples(base, new)
        other = page.evaluate("([base, next]) => window.hpcaiStatistics.compareSamples(base, next)", [base, new])
        for name, value in {
            "ratio": own.ratio,
            "pBounded": own.p_bounded,
            "pPermutation": own.p_permutation,
            "low": own.low,
            "high": own.high,
        }.items():
            assert other[name] == pytest.approx(value, rel=1e-6, nan_ok=True), (name, base, new)
    p = [0.01, 0.04, float("nan"), 0.03, 0.9]
    corrected = page.evaluate("(p) => window.hpcaiStatistics.correctHolm(p)", p)
    assert corrected == pytest.approx(correct_holm(p), nan_ok=True)


def test_what_cannot_be_compared_is_not(visit: Visit, edition: Edition) -> None:
    first, other = edition.entries[0], edition.entries[1]
    assert first.benchmark != other.benchmark
    page = visit.open(f"compare.html?results={first.id},{other.id},../index,nothing,constructor")
    page.wait_for_selector("html.interactive")
    assert page.locator("#comparison h3").count() == 0
    untested = page.locator("details:has(li)")
    assert untested.get_attribute("open") is None
    untested.locator("summary").click()
    assert "benchmark" in untested.locator("li").inner_text()
    assert "nothing" in page.inner_text("#comparison .missing")
    # A result that is not there is a file that is not there: the browser says so, and so does the page.
    assert len([one for one in visit.problems if "ERR_FILE_NOT_FOUND" in one]) == 1
    visit.problems.clear()


def test_settings_that_differ_are_shown_and_the_others_folded(visit: Visit, edition: Edition) -> None:
    one, other = _ranking(edition).places[:2]
    page = visit.open(f"compare.html?results={one.entry},{other.entry}")
    page.wait_for_selector("html.interactive")
    texts = "rows => rows.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))"
    table = page.locator("table", has=page.locator("caption", has_text="Settings that differ"))
    differing = table.locator("tbody tr").evaluate_all(texts)
    same = page.locator("details table tbody tr").evaluate_all(texts)
    assert differing
    assert same
    assert all(first != second for first, second in differing)
    assert all(first == second for first, second in same)
    assert not page.is_visible("details table")


def test_charts_answer_to_the_mouse(visit: Visit, edition: Edition) -> None:
    page = visit.open("scaling.html")
    figure = page.locator("figure.figure").first
    picture = figure.locator("img.drawn")
    assert "points" in (picture.get_attribute("alt") or "")
    page.wait_for_selector("figure.answers .mark-symbol path")
    assert not picture.is_visible()
    hostile = page.locator("figure.answers .mark-symbol path").first
    hostile.hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    tip = page.inner_text("#vg-tooltip-element")
    assert any(entry.title[:20] in tip for entry in edition.entries)
    assert page.locator("#vg-tooltip-element :is(img, script)").count() == 0
    page.click("#theme")
    page.wait_for_selector("figure.answers .mark-symbol path")
    hostile.click(force=True)
    page.wait_for_url("**/result/*.html")


def test_skip_link_and_theme_by_keyboard(visit: Visit) -> None:
    page = visit.open("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert urlsplit(page.url).fragment == "main"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_print_shows_the_table_alone(visit: Visit, edition: Edition) -> None:
    page = visit.open_list(_ranking(edition))
    page.emulate_media(media="print")
    assert not page.is_visible("#filters")
    assert page.is_visible("#list")


@pytest.mark.slow
def test_ten_thousand_entries_keep_the_budget(browser: Browser, tmp_path: Path) -> None:
    edition = make_edition(10_000)
    started = time.monotonic()
    site = _build(edition, tmp_path / "site")
    built_s = time.monotonic() - started
    started = time.monotonic()
    write_pages(edition, site, frozenset({f"result/{edition.entries[0].id}"}), {})
    again_s = time.monotonic() - started
    ranking = _ranking(edition)
    opened = Visit(browser, site, LAPTOP)
    with_first = sum((site / place).stat().st_size for place in (f"list/{ranking.id}.html", f"list/{ranking.id}.js"))
    with_first += sum((site / "assets" / name).stat().st_size for name in ASSETS)
    page = opened.open_list(ranking)
    interactive_s = page.evaluate("performance.now()") / 1000
    page.wait_for_selector("html.complete")
    complete_s = page.evaluate("performance.now()") / 1000
    assert page.inner_text("#list-status").startswith(f"{len(ranking.places):,} results")
    sorting_s = page.evaluate(
        """() => { const start = performance.now(); document.querySelector('th[data-column=machine] button').click();
        return (performance.now() - start) / 1000; }"""
    )
    print(f"{len(ranking.places)} rows: {with_first} bytes, then {opened.bytes} in all")
    print(f"answers in {interactive_s:.2f} s, complete in {complete_s:.2f} s, sorted in {sorting_s:.2f} s")
    print(f"built in {built_s:.1f} s, again in {again_s:.1f} s")
    assert opened.problems == []
    assert with_first <= MOST_BYTES
    assert interactive_s <= MOST_S
    assert complete_s <= 2 * MOST_S
    assert sorting_s <= MOST_S
    opened.context.close()
