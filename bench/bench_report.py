"""Open the finished report in Chromium, compared with Snakemake's own report of the study, interleaved and offline.

Needs the results of a study (`make run`) and Chromium. Every opening uses a fresh browser profile, without a cache.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import BrowserType, sync_playwright

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic"]
TIMES = """() => {
  const page = performance.getEntriesByType('navigation')[0];
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return [paint ? paint.startTime / 1000 : NaN, page.loadEventEnd / 1000];
}"""
ROUNDS = 7
GOAL_S = 1.0


def main() -> None:
    """Open both pages alternately and print when they become readable and complete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="results folder of a study")
    pages = [parser.parse_args().results / name for name in ("report.html", "workflow_report.html")]
    missing = [str(page) for page in pages if not page.exists()]
    chromium = shutil.which("chromium")
    if missing or not chromium:
        print(f"not measured: {', '.join(missing) or 'chromium'} missing (`make run`; apt install chromium)")
        return
    seen: dict[Path, list[Sequence[float]]] = {page: [] for page in pages}
    with sync_playwright() as playwright:
        for _ in range(ROUNDS):
            for page in pages:
                seen[page].append(open_page(playwright.chromium, chromium, page))
    ours, peer = (medians(seen[page]) for page in pages)
    for page, (paint_s, load_s) in zip(pages, (ours, peer), strict=True):
        size = page.stat().st_size / 1e6
        print(f"{page.name}, {size:.1f} MB: first paint {paint_s:.2f} s, loaded {load_s:.2f} s, medians of {ROUNDS}")
    print(f"  loaded / {GOAL_S:g} s: {ours[1] / GOAL_S:.2f} (goal 1)")
    print(f"  Snakemake's report / ours: first paint {peer[0] / ours[0]:.1f} x, loaded {peer[1] / ours[1]:.1f} x")


def open_page(browser_type: BrowserType, chromium: str, page: Path) -> Sequence[float]:
    """Return the times of the first paint and of the complete load [s], from the start of the navigation."""
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-") as profile:
        context = browser_type.launch_persistent_context(profile, executable_path=chromium, args=OPTIONS)
        tab = context.new_page()
        tab.goto(page.resolve().as_uri(), wait_until="load")
        tab.wait_for_timeout(300)
        times: Sequence[float] = tab.evaluate(TIMES)
        context.close()
    return times


def medians(times: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the medians of first paint and of the load."""
    paint_s, load_s = (statistics.median(column) for column in zip(*times, strict=True))
    return paint_s, load_s


if __name__ == "__main__":
    main()
