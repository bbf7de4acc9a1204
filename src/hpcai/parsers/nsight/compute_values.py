"""Convert the text cells of Nsight Compute to numbers in SI units."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from hpcai.parsers.nsight.compute_checks import Doubt
from hpcai.parsers.nsight.compute_pages import IDENTITY, TOOL, Page
from hpcai.parsers.reading import nothing_read
from hpcai.parsers.units_text import Unit, decide_style, to_si_unit

_Value = TypeVar("_Value")
NUMBERS = ("minimum", "maximum", "mean")
FEWEST_LETTERS = 3


def with_numbers(path: Path, page: Page) -> tuple[pd.DataFrame, list[Doubt]]:
    """Return the cells with numbers in SI units, and the cells omitted because they are not numbers.

    The number format is determined once per file, from all its numbers.

    Raises
    ------
    ParseError
        If the separators contradict one another.
    """
    cells = page.cells
    texts = pd.unique(cells[["launches", *NUMBERS]].to_numpy().ravel())
    try:
        style = decide_style(texts)
    except ValueError as error:
        advice = "it is damaged, or from several locales: write it under LC_ALL=C"
        raise nothing_read(path, TOOL, f"numbers with {error}", advice) from error
    values = _readable(texts, style.read)
    units = _readable(pd.unique(cells["unit"]), to_si_unit)
    cells = cells[~((cells["unit"] == "") & cells["mean"].map(_is_word))]
    why = pd.Series("", index=cells.index)
    for column in ("launches", *NUMBERS):
        why[~cells[column].isin(values)] = "a value that is no number, or whose separators leave it open"
    unknown = ~cells["unit"].isin(units)
    why[unknown] = "a value in a unit that is not known (" + cells["unit"][unknown] + ")"
    doubts = [Doubt(int(line), text) for line, text in zip(cells["line"], why, strict=True) if text]
    return _convert(cells[why == ""], values, units), doubts


def _convert(cells: pd.DataFrame, values: dict[str, float], units: dict[str, Unit]) -> pd.DataFrame:
    factors = cells["unit"].map({text: unit.factor for text, unit in units.items()})
    columns = {column: cells[column].map(values).astype(float) * factors for column in NUMBERS}
    columns["launches"] = cells["launches"].map(values).astype(float)
    columns["unit"] = cells["unit"].map({text: unit.name for text, unit in units.items()})
    cells = cells.assign(**columns)
    for column in ("section", *IDENTITY.values()):
        cells[column] = cells[column].astype("string")
    cells["launch"] = pd.to_numeric(cells["launch"], errors="coerce").astype("Float64")
    return cells


def _readable(texts: Iterable[str], read: Callable[[str], _Value]) -> dict[str, _Value]:
    """Map each readable text to its number."""
    found = {}
    for text in texts:
        try:
            found[text] = read(text)
        except ValueError:
            continue
    return found


def _is_word(text: str) -> bool:
    """Return whether a value without a unit is a name (``CachePreferNone``), a list or empty."""
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    is_list = text.startswith(("(", "[")) and not text.startswith("(!)")
    return not text or is_list or (letters >= FEWEST_LETTERS and letters > digits and text.strip("-").lower() != "nan")
