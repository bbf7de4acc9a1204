"""Tables for a terminal: aligned columns, at most 100 characters wide."""

import math
from collections.abc import Iterable, Sequence

WIDTH = 100
GAP = "  "


def say_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return lines of aligned cells; the first column is text and gives way where the line becomes too long.

    Parameters
    ----------
    heads
        Heading of each column, with its unit.
    rows
        Cells as text.
    """
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[place]) for line in table) for place in range(len(heads))]
    room = WIDTH - sum(widths[1:]) - len(GAP) * (len(widths) - 1)
    widths[0] = min(widths[0], max(room, len(heads[0])))
    return "\n".join(GAP.join([_left(line[0], widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in table)


def say_number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def say_percent(value: float | None) -> str:
    """Return a ratio in percent, without the sign; a dash where it is not known."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.0f}"


def _left(text: str, width: int) -> str:
    """Keep the end of a long name, which tells most."""
    return text.ljust(width) if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
