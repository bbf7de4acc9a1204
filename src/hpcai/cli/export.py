"""Commands that write results in the forms of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.options import Command, Group, argument, option

app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False)


@app.callback()
def export() -> None:
    """Write results for other tools."""


@app.command(cls=Command)
def openmetrics(
    folders: Annotated[list[Path], argument("FOLDER", "results folders, folders of runs, or files record.json")],
    output: Annotated[Path | None, option("FILE", "write to this file instead")] = None,
) -> None:
    """Print the runs as OpenMetrics text, for a dashboard."""
    from hpcai.core.files import write_asked
    from hpcai.report.openmetrics import runs_as_openmetrics

    text = runs_as_openmetrics(folders)
    if output is None:
        print(text, end="")
    else:
        write_asked(output, text)
