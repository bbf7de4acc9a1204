"""Text tables: as wide as the terminal, with bold headings; elsewhere plain text of 100 columns, if numbers fit."""

from collections.abc import Iterable, Sequence
from typing import Literal

WIDTH = 100
"""Width of text for a file or another program."""
NARROWEST = 12
"""Width below which no column of text is squeezed."""
GAP = 2
"""Blanks between columns."""

_OVER = "\ue000"
"""Marks a line across all columns, which Rich's tables lack."""


def say_table(heads: Sequence[str], rows: Iterable[Sequence[str] | str], *, kinds: str = "", indent: int = 0) -> str:
    """Return lines of aligned cells; if a line would become too long, text cells wrap.

    Cells that are kept whole are never cut, because half a number is another number: the lines become longer instead.

    Parameters
    ----------
    heads
        Heading of each column, with its unit.
    rows
        Cells as text; a row with a single text spans all columns.
    kinds
        One letter per column: ``w`` text that may wrap, ``k`` text kept whole, ``n`` numbers, kept whole and aligned
        right. By default, text columns come first, followed by numbers.
    indent
        Blanks before each line.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    rows, kinds = list(rows), kinds or f"w{'n' * (len(heads) - 1)}"
    narrowest = _narrowest(heads, [row for row in rows if not isinstance(row, str)], kinds)
    console = Console(highlight=False)
    console.width = max(console.width if console.is_terminal else 0, WIDTH, sum(narrowest) + indent)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for head, kind in zip(heads, kinds, strict=True):
        justify: Literal["left", "right"] = "right" if kind == "n" else "left"
        table.add_column(Text(head), justify=justify, overflow="fold", no_wrap=kind != "w")
    over: list[str] = []
    for row in rows:
        if isinstance(row, str):
            over.append(row)
        table.add_row(*([_OVER] if isinstance(row, str) else map(Text, row)))
    with console.capture() as printed:
        console.print(Padding(table, (0, 0, 0, indent), expand=False))
    remaining = iter(over)
    lines = (" " * indent + next(remaining) if _OVER in line else line.rstrip() for line in printed.get().splitlines())
    return "\n".join(lines)


def _narrowest(heads: Sequence[str], rows: Iterable[Sequence[str]], kinds: str) -> list[int]:
    """Return the width below which each column would lose text, with its gap."""
    from rich.cells import cell_len

    widest = [max(map(cell_len, cells)) for cells in zip(heads, *rows, strict=True)]
    return [GAP + (min(width, NARROWEST) if kind == "w" else width) for width, kind in zip(widest, kinds, strict=True)]
