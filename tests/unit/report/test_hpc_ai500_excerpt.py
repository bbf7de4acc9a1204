"""A report document on the page of a large study: its beginning, and where the rest is."""

from hpcai.core.limits import MOST_LINES, MOST_ROWS
from hpcai.report.hpc_ai500.excerpt import shorten
from hpcai.report.hpc_ai500.model import Column, Document, Level, Part, Table


def make_document(rows: int, sentences: int) -> Document:
    table = Table(title="Every run", columns=(Column(name="run"),), rows=tuple((n,) for n in range(rows)), note="Runs.")
    part = Part(title="Scores", rule="All.", section="6.3.3", items=(), tables=(table,))
    lines = tuple(f"sentence {n}" for n in range(sentences))
    level = Level(level="free", verdict="not valid", findings=lines)
    return Document(
        study="s", benchmark="b", title="t", workload="w", machine="m", runs=rows, failed_runs=0, parts=(part,),
        results=lines, levels=(level,),
    )  # fmt: skip


def test_a_document_that_fits_stays_as_it_is() -> None:
    document = make_document(MOST_ROWS, MOST_LINES)
    assert shorten(document) == document


def test_a_long_document_says_what_it_lacks() -> None:
    shorter = shorten(make_document(MOST_ROWS + 9, MOST_LINES + 8))
    (table,) = shorter.parts[0].tables
    assert table.rows == tuple((n,) for n in range(MOST_ROWS))
    assert table.note.startswith("Runs. ")
    assert f"{MOST_ROWS + 9} rows" in table.note
    for lines in (shorter.results, shorter.levels[0].findings):
        assert lines[:-1] == tuple(f"sentence {n}" for n in range(MOST_LINES))
        assert lines[-1].startswith("and 8 more")
    assert shorter.headline == make_document(1, 1).headline
