"""What the reports show: every figure and every page of a table, with its heading and what it is made from.

A figure is declared where it is drawn, by :func:`figure` above its function in ``plots/``; nothing else names it but
its caption, ``reports/captions/NAME.rst``. The declarations are read without importing anything that draws, because
the workflow needs them whenever it starts.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

Stage = Literal["analyse", "views", "scores", "rounds", "published", "predict"]
"""Stage of the workflow that shows it; ``published``: models of others, for which nothing is measured."""


@dataclass(frozen=True)
class FigureEntry:
    """One figure.

    Attributes
    ----------
    stage, category
        Where it is drawn, and where Snakemake's report lists it.
    title
        Its heading.
    tables
        Names of the tables that it is drawn from, in the order of the drawing function's parameters.
    section, before
        Section of the report where it stands, and the table (or part of one) before which; blank: at the end.
    interactive
        Whether it is a chart that answers to the mouse, drawn with Altair.
    module, function
        Where it is drawn.
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


@dataclass(frozen=True)
class PageEntry:
    """One table as a page of its own.

    Attributes
    ----------
    stage, category
        Where it is written, and where Snakemake's report lists it; a page without a category is not listed.
    label
        What the list calls it.
    title, note
        Its heading, and a sentence on what the numbers are.
    """

    stage: Stage
    category: str
    label: str
    title: str
    note: str


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


def _declared() -> Iterator[tuple[str, FigureEntry]]:
    for file in sorted((Path(__file__).parent / "plots").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "@figure(" not in text:
            continue
        for function in ast.parse(text).body:
            for call in getattr(function, "decorator_list", ()):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "figure":
                    yield _read_declaration(call, f"hpcai.plots.{file.stem}", getattr(function, "name", ""))


def _read_declaration(call: ast.Call, module: str, function: str) -> tuple[str, FigureEntry]:
    try:
        name = ast.literal_eval(call.args[0])
        facts = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except ValueError as error:
        raise ValueError(
            f"{module}, line {call.lineno}: found an expression in @figure, expected literals alone: they are read "
            "without running the module"
        ) from error
    return name, FigureEntry(**{"before": "", "interactive": False, **facts}, module=module, function=function)


def _by_name(*, interactive: bool) -> dict[str, FigureEntry]:
    return {name: one for name, one in _declared() if one.interactive == interactive}


FIGURES = _by_name(interactive=False)
"""Pictures, by the name of the file and of the caption."""
CHARTS = _by_name(interactive=True)
"""Charts that answer to the mouse, likewise."""
_MLPERF = (
    "Computed from published logs and from those of our own runs (column method). Empty: not known, or not defined."
)
_REASON = "Empty: not measured, or not defined (the column reason says which)."
PAGES: dict[str, PageEntry] = {
    "runs": PageEntry(
        "analyse",
        "Summary",
        "Table of runs",
        "All runs",
        "Measured; one row per run, those that broke down included. Empty: not measured.",
    ),
    "scales": PageEntry(
        "analyse",
        "Summary",
        "Table of scales",
        "All scales",
        "Means over the runs of a scale, with n beside them; measured. Empty: not measured.",
    ),
    "verdicts": PageEntry(
        "analyse",
        "Rules",
        "Table of verdicts",
        "What the rules say",
        "Judged by the supervisor when each run ended; what no record can tell is not judged.",
    ),
    "efficiency": PageEntry(
        "analyse",
        "Summary",
        "Table of resources",
        "What each run asked for and used",
        "Measured, but for what the column source calls declared. Empty: not known; reason says why.",
    ),
    "communication": PageEntry(
        "views",
        "Communication",
        "Table of communication",
        "Communication of the profiled runs",
        "Measured over the profiled steps of rank 0's timeline. Empty: not measured.",
    ),
    "io": PageEntry(
        "views",
        "I/O",
        "Table of I/O",
        "What Darshan saw",
        "Measured over the profiled runs, one row for each folder of data.",
    ),
    "work": PageEntry(
        "views",
        "Kernels",
        "Table of floating-point work",
        "Floating-point work and rates",
        "Counted by formula, by compiled step, by hardware counters; rates are those of the timed runs.",
    ),
    "kernels": PageEntry(
        "views",
        "Kernels",
        "Table of kernels",
        "Kernel time by category",
        "Measured over the profiled steps of rank 0.",
    ),
    "ceilings": PageEntry(
        "views",
        "Kernels",
        "Table of ceilings",
        "Ceilings of this machine",
        "Measured: the best of several ways, sizes and repeats.",
    ),
    "characterisation": PageEntry(
        "views",
        "Characterisation",
        "Memory, network and I/O bandwidth",
        "Memory, network and I/O bandwidth of each benchmark",
        "As Table VII of the MLPerf HPC paper; each number with its method, or why it was not measured.",
    ),
    "power": PageEntry(
        "views",
        "Characterisation",
        "Table of power",
        "Power of the profiled runs",
        "Measured over the training steps by the meters that the node has.",
    ),
    "advice": PageEntry(
        "views",
        "Characterisation",
        "Advice",
        "What the numbers advise",
        "Each sentence with the numbers that it stands on.",
    ),
    "inconsistencies": PageEntry(
        "views",
        "Characterisation",
        "Inconsistencies",
        "Rates above their roof",
        "Either the sample or the ceiling is wrong; both are shown.",
    ),
    "captures": PageEntry(
        "views",
        "Characterisation",
        "Table of captures",
        "What was captured, and why not",
        "One row for each profile of each point.",
    ),
    "run_scores": PageEntry(
        "scores", "Scores", "Table of scores of all runs", "Scores of all runs", f"One row per timed run. {_REASON}"
    ),
    "scores": PageEntry(
        "scores",
        "Scores",
        "Table of scores",
        "Scores",
        f"One row per benchmark, variant and scale. {_REASON}",
    ),
    "ranking": PageEntry(
        "scores",
        "Scores",
        "Table of ranks",
        "Ranking",
        "Like with like only: one list for each workload, dataset, target and exponent.",
    ),
    **{
        name: PageEntry("rounds", "", title, title, _MLPERF)
        for name, title in {
            "mlperf_runs": "Runs of MLPerf HPC",
            "mlperf_weak": "Weak scaling of MLPerf HPC",
            "mlperf_verdicts": "Verdicts on MLPerf HPC logs",
            "mlperf_repairs": "Repairs of MLPerf HPC logs",
            "mlperf_systems": "Systems of MLPerf HPC results",
            "mlperf_results": "Results of MLPerf HPC",
            "mlperf_efficiencies": "Scaling efficiencies of MLPerf HPC results",
            "mlperf_principal": "Principal axes of the runs of MLPerf HPC results",
            "mlperf_curves": "Joined curves of MLPerf HPC results",
            "mlperf_predictions": "Predicted configurations of MLPerf HPC",
            "mlperf_leave_one_out": "Each MLPerf HPC result predicted from the others",
            "mlperf_prediction_errors": "How far predictions are off",
        }.items()
    },
}
"""Pages of tables, by the name of the table."""


def figures_of(stage: Stage) -> dict[str, FigureEntry]:
    """Return the figures of a stage by their names, without its charts."""
    return {name: one for name, one in FIGURES.items() if one.stage == stage}


def tables_shown(stage: Stage) -> list[str]:
    """Return the names of all tables that a stage draws or shows, each once."""
    shown = [
        *[table for one in [*FIGURES.values(), *CHARTS.values()] if one.stage == stage for table in one.tables],
        *[name for name, page in PAGES.items() if page.stage == stage],
    ]
    return list(dict.fromkeys(shown))
