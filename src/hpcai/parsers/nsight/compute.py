"""Hardware counters and kernel times from Nsight Compute's ``--csv`` output.

Reads all three tables: the details page, the raw page (``--page raw``), and ``--print-summary per-kernel``.
Formats: profilers.md, section 2.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from hpcai.parsers.nsight.compute_checks import CHECKS, Doubt
from hpcai.parsers.nsight.compute_pages import TOOL, Page, find_page
from hpcai.parsers.nsight.compute_values import with_numbers
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Fact, Reading, nothing_read
from hpcai.parsers.text import read_lines

COLUMNS = (
    *("name", "device", "process", "launch", "launches", "metric", "unit", "minimum", "maximum", "mean", "total"),
    *("section", "block_size", "grid_size", "compute_capability"),
)
ADDITIVE_NAMES = frozenset(
    ("Duration", "Elapsed Cycles", "Executed Instructions", "Issued Instructions", "Branch Instructions")
)
ADDITIVE_UNITS = ("", "s", "byte")
MOST_LINES = 5
_PROPERTIES = re.compile(r"(?:launch|device|profiler|nvlink|numa|c2clink)__")


def read_ncu(path: Path) -> Reading:
    """Return the counters of every launch (summary page: every kernel).

    Columns: ``name``, ``device``, ``process``, ``launch`` (unique within a process; missing in a summary),
    ``launches``, ``metric``, ``unit`` (SI; "" for counts, "ratio" for percentages), ``minimum``, ``maximum``, ``mean``,
    ``total`` (NaN for ratios, rates and properties), ``section``, ``block_size``, ``grid_size``,
    ``compute_capability``. A metric printed for a launch in two units has two rows. Metrics whose value is a word are
    omitted; those that ncu could not measure ("n/a") are NaN.

    A launch is omitted as a whole if its rows contradict one another, or if it is the last one and lacks metrics of the
    others. A file truncated between two launches looks like a complete one.

    Raises
    ------
    ParseError
        If no kernel was profiled, the file is foreign, or its separators contradict one another.
    """
    page = find_page(path, read_lines(path, TOOL))
    cells, doubts = with_numbers(path, page)
    notes = [*page.notes]
    for check in CHECKS:
        bad, note = check(cells)
        doubts += [Doubt(int(line), why) for line, why in zip(cells["line"], bad, strict=True) if why]
        notes += note
        cells = cells[bad == ""]
    if cells.empty:
        why = "; ".join(sorted({doubt.why for doubt in doubts})[:3])
        raise nothing_read(path, TOOL, f"no kernels that can be read ({why})", "the file is damaged: copy it again")
    table = _finish(cells)
    doubts += [Doubt(line, "no whole row") for line in page.damaged]
    seen = len(table) + len(doubts)
    return Reading(table, TOOL, path, len(table), seen, (*_sentences(doubts), *notes), _facts(page, table))


def _finish(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the table; identical repeats of a launch's metric are dropped."""
    cells = cells.drop_duplicates(["process", "launch", "name", "block_size", "grid_size", "metric", "unit"])
    named = cells["metric"].map(
        lambda name: name in ADDITIVE_NAMES or (name.endswith((".sum", ".avg")) and not _PROPERTIES.match(name))
    )
    totals = (cells["launches"] * cells["mean"]).where(named & cells["unit"].isin(ADDITIVE_UNITS))
    cells = cells.assign(
        total=totals, launches=cells["launches"].astype("int64"), launch=cells["launch"].astype("Int64")
    )
    return cells[list(COLUMNS)].reset_index(drop=True)


def _sentences(doubts: Iterable[Doubt]) -> list[str]:
    by_why: dict[str, list[int]] = {}
    for doubt in doubts:
        by_why.setdefault(doubt.why, []).append(doubt.line)
    sentences = []
    for why, found in by_why.items():
        lines = sorted(set(found))
        more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
        places = ", ".join(map(str, lines[:MOST_LINES]))
        sentences.append(f"line{'s' if len(lines) > 1 else ''} {places}{more}: {why}, skipped")
    return sentences


def _facts(page: Page, table: pd.DataFrame) -> dict[str, Fact]:
    capabilities = sorted(table["compute_capability"].dropna().unique())
    kernels = table.drop_duplicates(["process", "launch", "name", "block_size", "grid_size"])
    return {
        "page": page.kind,
        "launches": int(kernels["launches"].sum()),
        "kernels": int(kernels["name"].nunique()),
        "processes": int(kernels["process"].nunique()),
        "compute_capability": ", ".join(capabilities) or None,
    }


READER = Reader("ncu", "table of Nsight Compute", read_ncu, looks=("a table of Nsight Compute",))
