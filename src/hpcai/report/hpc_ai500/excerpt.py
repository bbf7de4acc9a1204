"""The beginning of a long document, for the page of the study; the document's own page has all of it."""

from hpcai.core.limits import MOST_LINES, MOST_ROWS
from hpcai.report.hpc_ai500.model import Document, Table


def shorten(document: Document) -> Document:
    """Return a document with the first ``MOST_ROWS`` rows of its tables and ``MOST_LINES`` of its sentences."""
    parts = [part.model_copy(update={"tables": tuple(map(_shorten_table, part.tables))}) for part in document.parts]
    levels = [level.model_copy(update={"findings": _shorten_list(level.findings)}) for level in document.levels]
    shorter = {"parts": tuple(parts), "levels": tuple(levels), "results": _shorten_list(document.results)}
    return document.model_copy(update=shorter)


def _shorten_table(table: Table) -> Table:
    if len(table.rows) <= MOST_ROWS:
        return table
    words = f"{MOST_ROWS} of {len(table.rows):,} rows: the first ones. Everything is in `report.html` of the document."
    note = f"{table.note} {words}".strip()
    return table.model_copy(update={"rows": table.rows[:MOST_ROWS], "note": note})


def _shorten_list(sentences: tuple[str, ...]) -> tuple[str, ...]:
    left = len(sentences) - MOST_LINES
    return (*sentences[:MOST_LINES], f"and {left:,} more in the document's own page") if left > 0 else sentences
