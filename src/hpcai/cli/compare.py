"""Commands that compare results: two of them, one against another, or many in order of time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.options import Command, argument, flag, option, takes

app = typer.Typer(rich_markup_mode=None, add_completion=False)
TOLERANCE = 0.05
Tolerance = Annotated[float, option("RATIO", "changes that do not count as a regression")]
Measures = Annotated[
    list[str] | None,
    option(
        "NAME",
        "score to consider, may be repeated (default: time to train, VFLOPS and training throughput); a wrong "
        "name lists all",
    ),
]


@app.command(cls=Command)
def compare(
    base: Annotated[Path, argument("BASE", "results folder of the earlier study, such as results")],
    new: Annotated[Path, argument("NEW", "results folder of the later study")],
    everything: Annotated[bool, flag("--all", "print all scores, not only the most important ones")] = False,
    json: Annotated[Path | None, option("FILE", "write everything as JSON")] = None,
    csv: Annotated[Path | None, option("FILE", "write the scores, and the changes to FILE_changes")] = None,
) -> None:
    """Show the changes between two results: settings, code, machine, software, and every score.

    Exit status: 0, or 1 for bad input.
    """
    from hpcai.compare.comparison import compare_folders
    from hpcai.compare.output import comparison_as_dict, write_comparison
    from hpcai.compare.text import say_comparison
    from hpcai.core.files import write_asked_json

    comparison = compare_folders(base, new)
    if json:
        write_asked_json(json, comparison_as_dict(comparison))
    if csv:
        write_comparison(comparison, csv)
    print(say_comparison(comparison, everything=everything))


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Options of `hpcai regress`."""

    base: Annotated[Path, argument("BASE", "results folder to compare with")]
    new: Annotated[Path, argument("NEW", "results folder to judge")]
    require_conclusive: Annotated[
        bool, flag("--require-conclusive", "exit with status 3 if there are too few runs for a conclusion")
    ] = False
    allow_lost: Annotated[bool, flag("--allow-lost", "NEW may lack points of BASE")] = False
    json: Annotated[Path | None, option("FILE", "write the verdict and its reasons as JSON")] = None
    tolerance: Tolerance = TOLERANCE
    measure: Measures = None


@app.command(cls=Command)
@takes(Judgement)
def regress(asked: Judgement) -> int:
    """Judge whether a result is worse than another, for continuous benchmarking.

    A regression is significant and larger than the tolerance, or a loss of convergence (Fisher's exact test), or a
    point whose runs all fail. Points that NEW lacks or that cannot be compared are inconclusive; another validity
    is reported without affecting the verdict. Exit status: 0 no regression, 1 bad input, 2 regression, 3 inconclusive:
    with --require-conclusive, and always if NEW lacks points that BASE has measured (lost points), unless --allow-lost
    is given; otherwise 0. With two or three runs on a side, a regression relies on the assumption of normal scatter; a
    single run never shows one.
    """
    from hpcai.compare.measures import HEADLINES
    from hpcai.compare.output import regression_as_dict
    from hpcai.compare.text import say_regression
    from hpcai.compare.verdict import regress_folders
    from hpcai.core.files import write_asked_json

    regression = regress_folders(asked.base, asked.new, asked.tolerance, asked.measure or HEADLINES)
    if asked.json:
        write_asked_json(asked.json, regression_as_dict(regression))
    print(say_regression(regression))
    return regression.exit_code(require_conclusive=asked.require_conclusive, allow_lost=asked.allow_lost)


@app.command(cls=Command)
def history(
    folders: Annotated[list[Path], argument("FOLDER", "results folders in any order")],
    json: Annotated[Path | None, option("FILE", "write the table as JSON")] = None,
    csv: Annotated[Path | None, option("FILE", "write the table as CSV")] = None,
    tolerance: Tolerance = TOLERANCE,
    measure: Measures = None,
) -> None:
    """Show the scores of many results in order of time.

    Exit status: 0, or 1 for bad input.
    """
    from hpcai.compare.history import history_of
    from hpcai.compare.measures import HEADLINES
    from hpcai.compare.output import history_as_dict, write_frame
    from hpcai.compare.text import say_history
    from hpcai.core.files import write_asked_json

    found = history_of(folders, measure or HEADLINES, tolerance)
    if json:
        write_asked_json(json, history_as_dict(found))
    if csv:
        write_frame(found, csv)
    print(say_history(found))
