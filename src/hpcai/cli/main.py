"""All commands of ``hpcai``, with the messages and exit status of failures."""

import sys
from typing import Annotated, ClassVar

import typer
from typer.main import get_command

from hpcai.cli import campaign, compare, export, gpu, listing, mlperf, runs, study
from hpcai.cli.closed_pipes import dropping_unread
from hpcai.cli.options import Group
from hpcai.cli.predict import Predictors
from hpcai.core.errors import HpcaiError

PROGRAM = "hpcai"
NO_ACCESS = "ask its owner for access, free some space, or try again when the file system is back"
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Program(Group):
    """All commands, by what they are for."""

    sections: ClassVar = {
        "Prepare a study": ("init", "check", "rules", "estimate", "schema"),
        "Run it and watch it": ("run", "status", "doctor", "efficiency"),
        "Test the machine": ("acceptance", "gpu"),
        "Judge, compare and predict": ("compare", "regress", "history", "reproducibility", "predict"),
        "Publish, and read what others publish": ("mlperf", "list", "export", "read"),
        "Repeat and repair": ("retry", "discard", "restore"),
        "Called by the workflow": ("measure", "capture", "measure-weak"),
    }


app = typer.Typer(name=PROGRAM, cls=Program, rich_markup_mode=None, context_settings=SETTINGS)
for part in (study.app, runs.app, campaign.app, compare.app, gpu.app):
    app.add_typer(part)
app.add_typer(mlperf.app, name="mlperf")
app.add_typer(listing.app, name="list")
app.add_typer(export.app, name="export")
app.add_typer(typer.Typer(cls=Predictors), name="predict", help=Predictors.__doc__)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"HPC-AI Bench {metadata.version('hpcai')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="say the version")
    ] = False,
) -> None:
    """HPC-AI Bench measures how good a machine is at training neural networks.

    `hpcai run` measures the study of the folder, `hpcai doctor` names the next step, `hpcai COMMAND --help` explains.
    """


def call(words: list[str]) -> int:
    """Run one command and return its status.

    Raises
    ------
    HpcaiError
        For bad input.
    TyperException
        For a wrong command line.
    """
    status: int | None = get_command(app).main(args=words, prog_name=PROGRAM, standalone_mode=False)
    return status or 0


def main() -> int:
    """Run one command; return its status: 0, or 1 after one clear sentence; verdicts use more codes.

    A reader that closes the pipe early, such as `head`, does not change it.
    """
    with dropping_unread(sys.stdout, sys.stderr):
        return _run(sys.argv[1:])


def _run(words: list[str]) -> int:
    """Run one command, and say in one sentence why it failed."""
    try:
        status = call(words)
        sys.stdout.flush()
    except typer.TyperException as error:
        # A wrong command line is bad input like any other: status 1, because 2 means a regression.
        context = getattr(error, "ctx", None)
        print(
            *([context.get_usage()] if context else []), f"error: {error.format_message()}", sep="\n", file=sys.stderr
        )
        return 1
    except HpcaiError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except OSError as error:  # no access, or a full or missing file system: code cannot prevent these
        print(f"error: {error.filename or 'a file'}: {error.strerror or error}; {NO_ACCESS}", file=sys.stderr)
        return 1
    return status
