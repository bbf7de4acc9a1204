"""What a section of the page is: its figures and tables, and the question that they answer."""

from dataclasses import dataclass

from hpcai.report.tables import TableSpec


@dataclass(frozen=True)
class FigureSpec:
    """One figure: the name of its file, its heading, and the tables it was made from."""

    name: str
    title: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class SectionSpec:
    """One section of the page.

    Attributes
    ----------
    anchor, title, question
        Its id, its heading, and the question it answers.
    parts
        Its figures and tables in their order.
    level
        2, or 3 for a part of the section before.
    absent
        What it says instead of its parts if none of its tables has rows; each part says so itself where this is empty.
    """

    anchor: str
    title: str
    question: str
    parts: tuple[FigureSpec | TableSpec, ...]
    level: int = 2
    absent: str = ""
