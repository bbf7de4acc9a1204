"""The page on MLPerf HPC rounds in a real browser."""

from pathlib import Path

import pytest
from browser.checks import check_page, missing_browser
from unit.report.rounds_factory import make_folder

from hpcai.report.page import write_rounds_page

SOURCES = Path(__file__).parents[2] / "reports"

pytestmark = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")


def test_page_is_whole_in_every_view(tmp_path: Path) -> None:
    page = make_folder(tmp_path, place="rounds_page/") / "rounds.html"
    write_rounds_page(tmp_path, "rounds_page/", SOURCES, page)
    assert check_page(page) == []
