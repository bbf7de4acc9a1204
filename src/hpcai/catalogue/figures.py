"""All figures of the reports, with their headings and tables.

A figure is declared where it is drawn, by decorating its function in ``plots/`` with :func:`figure`; only its caption,
``reports/captions/NAME.rst``, also uses its name. The declarations are read without importing plotting code, because
the workflow needs them at every start.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

Stage = Literal["analyse", "views", "scores", "rounds", "published", "predict", "gpu"]
"""Stage of the workflow that shows it; ``published``: models of others, for which nothing is measured; ``gpu``: the
command `hpcai gpu`, outside of the workflow."""


@dataclass(frozen=True)
class FigureEntry:
    """One figure.

    Attributes
    ----------
    stage, category
        Stage that draws it, and its place in Snakemake's report.
    title
        Its heading.
    tables
        Names of its source tables, in the order of the drawing function's parameters.
    section, before
        Section of the report, and the table (or part of one) that it precedes; blank: at the end.
    interactive
        Whether it is an interactive chart, drawn with Altair.
    module, function
        Location of the drawing function.
    """

    stage: Stage
    category: str
    title: str
    tables: tuple[str, ...]
    section: str
    before: str
    interactive: bool
    module: str
    function: str


Drawing = TypeVar("Drawing", bound=Callable[..., Any])


def figure(name: str, **facts: object) -> Callable[[Drawing], Drawing]:
    """Declare that a function of ``plots/`` draws a figure.

    Parameters
    ----------
    name
        Name of its file and of its caption.
    facts
        ``stage``, ``category``, ``title``, ``tables``, ``section``, ``before`` and ``interactive`` of
        :class:`FigureEntry`, as literals.
    """
    del name, facts  # _declared reads them from the text

    def unchanged(function: Drawing) -> Drawing:
        return function

    return unchanged


_DECLARED = re.compile(r"^@figure\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)
"""From the decorator to the name of its function; whole modules would take several times as long to parse."""


def _declared() -> Iterator[tuple[str, FigureEntry]]:
    plots = Path(__file__).parents[1] / "plots"
    for file in sorted(plots.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for found in _DECLARED.finditer(text):
            module = ".".join(("hpcai", "plots", *file.relative_to(plots).with_suffix("").parts))
            above = text.count("\n", 0, found.start())
            # One function may draw several figures.
            for call in getattr(ast.parse(f"{found[0]}(): ...").body[0], "decorator_list", ()):
                yield _read_declaration(call, f"{module}, line {above + call.lineno}", (module, found[1]))


def _read_declaration(call: ast.Call, where: str, function: tuple[str, str]) -> tuple[str, FigureEntry]:
    try:
        name = ast.literal_eval(call.args[0])
        facts = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except ValueError as error:
        raise ValueError(
            f"{where}: found an expression in @figure, expected literals alone: they are read without running it"
        ) from error
    return name, FigureEntry(**{"before": "", "interactive": False, **facts}, module=function[0], function=function[1])


_ALL = dict(_declared())
FIGURES = {name: one for name, one in _ALL.items() if not one.interactive}
"""Pictures, by name of file and caption."""
CHARTS = {name: one for name, one in _ALL.items() if one.interactive}
"""Interactive charts, likewise."""


def figures_of(stage: Stage) -> dict[str, FigureEntry]:
    """Return the figures of a stage by name, without its charts."""
    return {name: one for name, one in FIGURES.items() if one.stage == stage}


def tables_shown(stage: Stage, kind: Mapping[str, FigureEntry] = FIGURES) -> list[str]:
    """Return the names of all tables of a stage's figures (or charts), each once."""
    return list(dict.fromkeys(table for one in kind.values() if one.stage == stage for table in one.tables))
