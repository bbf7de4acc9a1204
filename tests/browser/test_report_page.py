"""The report's page in Chromium: complete in every view, no request, and charts that answer to the mouse."""

import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest
from browser.checks import VIEWS, check_page, embed_all, missing_browser, open_browser
from PIL import Image
from playwright.sync_api import Browser, Page
from unit.report.result_factory import make_campaign, write_results

from hpcai.report.page import write_report

SOURCES = Path(__file__).parents[2] / "reports"
pytestmark = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
MARKS = "#figure-roofline .live svg .mark-symbol path"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = write_results(tmp_path_factory.mktemp("study"), make_campaign())
    write_report(results, SOURCES, results / "report.html")
    return results / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser, page_file: Path) -> Iterator[Page]:
    context = browser.new_context(**VIEWS["laptop"])
    opened = context.new_page()
    opened.goto(page_file.as_uri())
    yield opened
    context.close()


def test_page_is_whole_in_every_view(browser: Browser, page_file: Path) -> None:
    assert check_page(page_file, browser=browser) == []


def test_partial_folder_has_a_page(browser: Browser, tmp_path: Path) -> None:
    results = write_results(tmp_path, make_campaign()[:3], full=False)
    write_report(results, SOURCES, results / "report.html")
    assert check_page(results / "report.html", browser=browser) == []


def test_checks_see_what_is_wrong(browser: Browser, page_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(page_file.parent, folder)
    (folder / "tables" / "runs.csv").unlink()
    text, end = page_file.read_text().split('id="figure-time-to-train"')
    end = end.replace("data:image/svg+xml;base64,", "data:image/svg+xml;base64,AAAA", 1)
    text = f'{text}id="figure-time-to-train"{end}'
    text = text.replace("<h2>Rules</h2>", '<h2>Rules</h2><a href="#nowhere">x</a><img src="https://example.org/x.png">')
    text = text.replace('<p class="question">', '<p class="question" style="width: 3000px">', 1)
    (folder / "report.html").write_text(text.replace("</main>", '</main><i id="main"></i><script>x</script>'))
    found = "\n".join(check_page(folder / "report.html", views=["laptop"], browser=browser))
    for words in (
        "#nowhere leads nowhere", "figure-time-to-train is empty", "no file tables/runs.csv", "wider than the screen",
        "example.org", "Content Security Policy", "the id main stands twice",
    ):  # fmt: skip
        assert words in found


def test_hover_shows_the_numbers_of_a_point(page: Page) -> None:
    embed_all(page)
    points = page.locator(MARKS)
    for number in range(points.count()):
        points.nth(number).scroll_into_view_if_needed()
        points.nth(number).hover(force=True)
        page.wait_for_timeout(100)
        tooltip = page.locator("#vg-tooltip-element.visible")
        if tooltip.count():
            assert "FLOP" in tooltip.inner_text()
            return
    pytest.fail("no mark of the roofline has a tooltip")


def test_legend_changes_what_is_drawn(page: Page) -> None:
    embed_all(page)
    figure = page.locator("#figure-scaling .live")
    figure.scroll_into_view_if_needed()
    before = figure.locator("svg").inner_html()
    figure.locator("svg .role-legend-symbol path").first.click(force=True)
    page.wait_for_timeout(300)
    assert figure.locator("svg").inner_html() != before


def _top_at_rest(page: Page, section: str) -> float:
    """Return where a section stays once the page has not moved for a second; a busy machine scrolls slowly."""
    tops: list[float] = []
    while len(tops) < 5 or len(set(tops[-5:])) > 1:
        tops.append(page.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", section))
        page.wait_for_timeout(250)
    return tops[-1]


@pytest.mark.parametrize("section", ["roofline", "kernels", "runs", "rules"])
def test_contents_lead_to_where_a_section_stays(page: Page, section: str) -> None:
    page.click(f'nav.contents a[href="#{section}"]')
    page.wait_for_timeout(1500)  # charts near the place become alive meanwhile
    assert -20 <= _top_at_rest(page, section) <= 200


def test_first_screen_shows_the_key_figures(page: Page) -> None:
    page.wait_for_function("document.querySelectorAll('.previews img').length === 3")
    assert page.evaluate(
        "[...document.querySelectorAll('.previews img')].every((item) => item.src.startsWith('data:'))"
    )


def test_previews_are_never_cut_at_their_sides(page: Page) -> None:
    """A flat picture, such as the sentence of an empty figure, stands in place of any of them."""
    page.wait_for_function("document.querySelectorAll('.previews img').length === 3")
    flat = "data:image/svg+xml," + quote('<svg xmlns="http://www.w3.org/2000/svg" width="660" height="60"/>')
    page.evaluate("(source) => { document.querySelector('.previews img').src = source; }", flat)
    page.wait_for_function("[...document.querySelectorAll('.previews img')].every((item) => item.complete)")
    sizes = page.evaluate(
        "[...document.querySelectorAll('.previews img')].map("
        "(item) => [item.clientWidth / item.naturalWidth, item.clientHeight / item.naturalHeight])"
    )
    assert len(sizes) == 3
    assert all(across >= down * 0.99 for across, down in sizes), sizes


def test_static_figures_follow_the_dark_theme(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(**VIEWS["dark"])
    page = context.new_page()
    page.goto(page_file.as_uri())
    figure = page.locator("#figure-time-to-train img")
    figure.scroll_into_view_if_needed()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    corner = Image.open(BytesIO(figure.screenshot())).convert("RGB").getpixel((3, 3))
    assert f"rgb({', '.join(map(str, corner))})" == paper
    context.close()


def test_theme_is_chosen_and_remembered(page: Page) -> None:
    embed_all(page)
    paper = "getComputedStyle(document.body).backgroundColor"
    text = "document.querySelector('#figure-roofline .live svg text').getAttribute('fill')"
    light, ink = page.evaluate(paper), page.evaluate(text)
    page.click("#theme")
    page.wait_for_function(f"ink => {text} !== ink", arg=ink)
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    assert page.evaluate(paper) == dark
    assert page.inner_text("#theme") == "Light"


def test_definition_opens_in_place_and_closes(page: Page) -> None:
    page.click("#answer thead a.definition >> nth=3")
    dialog = page.locator("#definition")
    assert "95 % interval" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_charts_wait_for_the_first_paint(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(**VIEWS["laptop"])
    context.add_init_script("addEventListener('DOMContentLoaded', () => { window.early = typeof window.vegaEmbed; })")
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.evaluate("window.early") == "undefined"
    embed_all(page)
    assert page.evaluate("typeof window.vegaEmbed") == "function"
    context.close()


def test_contents_are_closed_on_a_phone_and_follow_on_a_laptop(browser: Browser, page_file: Path, page: Page) -> None:
    assert page.evaluate("document.querySelector('nav details').open")
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    page.wait_for_selector("html.settled")  # before, sections are still laid out and move
    page.evaluate("document.getElementById('rules').scrollIntoView()")
    page.wait_for_selector("nav a[href='#rules'][aria-current]")
    phone = browser.new_page(**VIEWS["phone"])
    phone.goto(page_file.as_uri())
    assert not phone.evaluate("document.querySelector('nav details').open")
    phone.close()


def test_printed_page_is_light_and_opens_its_details(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    closed = "document.querySelectorAll('main details:not([open]):not(.document, .document *)').length"
    assert page.evaluate(closed) == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(closed) > 0
