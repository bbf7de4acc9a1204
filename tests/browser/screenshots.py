"""Pictures of a report and of a list as a reader sees them, for the README: `make screenshots` after `make run`.

The list is pictured where it is there: `make list` before any run lists the published rounds alone.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

LAPTOP = {"width": 1366, "height": 900}
LIST = {"width": 1366, "height": 1080}
SHOTS: dict[str, dict[str, Any]] = {
    "laptop": {"viewport": LAPTOP},
    "dark": {"viewport": LAPTOP, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
ANCHORS = {"laptop": "", "dark": "#roofline", "phone": ""}
"""Where the page is scrolled to."""


def main() -> None:
    """Write one PNG for each way of looking at the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("results/report.html"))
    parser.add_argument("--list", type=Path, default=Path("list-site/index.html"))
    parser.add_argument("--output", type=Path, default=Path("reports/screenshots"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, options in SHOTS.items():
            page = browser.new_page(**options)
            page.goto(arguments.report.resolve().as_uri())
            page.wait_for_timeout(2000)
            if ANCHORS[name]:
                page.click(f'nav a[href="{ANCHORS[name]}"]')
                page.wait_for_timeout(3000)
            page.screenshot(path=arguments.output / f"{name}.png")
        if arguments.list.is_file():
            page = browser.new_page(viewport=LIST)
            page.goto(arguments.list.resolve().as_uri())
            page.wait_for_timeout(1000)
            page.screenshot(path=arguments.output / "list.png")
        browser.close()


if __name__ == "__main__":
    main()
