"""Read run tables: one row per line, tab-separated, ignoring comments and blank lines."""

import csv
from collections import Counter
from pathlib import Path

from hpcai.config.reading import Model, Problems, Words, read_text, validate

INTEGER_COLUMNS = (
    *("nodes", "ranks_per_node", "repeats", "instances"),
    *("global_batch", "accumulation", "batchnorm_group", "spatial_parts", "gradient_groups"),
    "evaluation_batch",
)


LONGEST_NUMBER = 18
"""Digits of a number; longer ones stay text, which is refused."""


def read_rows(path: Path, row: type[Model], problems: Problems) -> list[tuple[int, Model]]:
    """Read a run table, adding its errors to a list.

    Parameters
    ----------
    path
        File with a header line and at least one row.
    row
        Model of a row: its fields are the columns.
    problems
        Collects errors.

    Returns
    -------
    list of tuple
        Line number and row of each line without errors.
    """
    expected = "a run table, see config/runs/default.tsv"
    text = read_text(path, problems, expected, expected)
    if text is None:
        return []
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if len(numbered) < 2:
        problems.add(str(path), "", Words(f"{len(numbered)} lines"), "a header line and at least one run")
        return []
    header = _cells(numbered[0][1], f"{path}: line {numbered[0][0]}", problems)
    if header is None:
        return []
    if len(header) == 1:
        _refuse_blanks(numbered[0][1], f"{path}: line {numbered[0][0]}", "the columns", problems)
        return []
    doubled = [column for column, count in Counter(header).items() if count > 1]
    if doubled:
        problems.add(f"{path}: line {numbered[0][0]}", "", doubled[0], "each column once")
        return []
    rows = []
    for number, line in numbered[1:]:
        checked = _read_row(row, header, line, f"{path}: line {number}", problems)
        if checked is not None:
            rows.append((number, checked))
    return rows


def _cells(line: str, place: str, problems: Problems) -> list[str] | None:
    """Return the cells of a line; None after adding an error."""
    try:
        return next(csv.reader([line], delimiter="\t"))
    except csv.Error:  # a cell of more than 131,072 characters, for example after an unclosed quote
        found = Words(f"a cell of up to {len(line)} characters")
        problems.add(place, "", found, f"at most {csv.field_size_limit()} in a cell")
        return None


def _refuse_blanks(line: str, place: str, expected: str, problems: Problems) -> None:
    """Add one error in place of one for each column; tabs easily become blanks when a line is copied."""
    problems.add(place, "", Words(f"no tab in {line!r}"), f"{expected}, with tabs between them, not blanks")


def _read_row(row: type[Model], header: list[str], line: str, place: str, problems: Problems) -> Model | None:
    cells = _cells(line, place, problems)
    if cells is None:
        return None
    if len(cells) == 1:
        _refuse_blanks(line, place, f"{len(header)} cells", problems)
        return None
    if len(cells) > len(header):
        problems.add(
            place, "", Words(f"{len(cells)} cells"), f"at most {len(header)}, one for each column, separated by tabs"
        )
        return None
    data: dict[str, object] = {key: cell for key, cell in zip(header, cells, strict=False) if cell != ""}
    for key in INTEGER_COLUMNS:
        text = data.get(key)
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER:
            data[key] = int(text)
    return validate(row, data, place, problems)
