"""Commands for a campaign: run it, show its progress, examine its results, and report its resource use."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.closed_pipes import is_unread
from hpcai.cli.options import Command, Unread, argument, flag, option, seconds_or
from hpcai.core.errors import ConfigError

app = typer.Typer(rich_markup_mode=None, add_completion=False)
RESULTS = Path("results")
REDRAW_S = 10.0
CLEAR = "\x1b[H\x1b[2J"
Results = Annotated[Path, argument("RESULTS", "results folder")]


@app.command("run", cls=Unread, add_help_option=False)
def run_workflow(context: typer.Context) -> int:
    """Run the workflow with a status screen, and report the time per stage."""
    from hpcai.campaign.run_command import run

    return run(context.args)


@app.command(cls=Command)
def status(
    results: Results = RESULTS,
    watch: Annotated[
        float | None,
        option(
            "[SECONDS]",
            parser=seconds_or(REDRAW_S),
            words=f"repeat at this interval (without a number: {REDRAW_S:g}) until nothing is running",
        ),
    ] = None,
) -> int:
    """Show the progress of a running campaign, and the expected end of its measurements."""
    from hpcai.campaign.status import say_status, status_of

    try:
        while True:
            with _readable():
                found = status_of(results)
            clear = CLEAR if watch is not None and sys.stdout.isatty() else ""
            print(f"{clear}{say_status(found)}", flush=True)
            if watch is None or found.is_over or is_unread(sys.stdout):
                return 0
            time.sleep(watch)
    except KeyboardInterrupt:
        return 0


@app.command(cls=Command)
def doctor(
    results: Results = RESULTS,
    study: Annotated[Path | None, option("FILE", "compare with this study instead of the last start")] = None,
    check_files: Annotated[
        bool, flag("--check-files", "check every raw file against its record (reads all data)")
    ] = False,
    json: Annotated[Path | None, option("FILE", "write all findings as JSON")] = None,
    gpu: Annotated[
        bool,
        flag("--gpu", "also report what this node lacks for accelerators (automatic if the machine file has some)"),
    ] = False,
    wait: Annotated[
        float | None,
        option(
            "[SECONDS]",
            parser=seconds_or(math.inf),
            words="first wait, at most this long, until nothing is running",
        ),
    ] = None,
) -> int:
    """Report the state of a results folder, and the single command to run next.

    Nothing is changed. Exit status: 0 all finished and intact, 1 bad input, 2 something is missing, failed or running,
    3 something is damaged.
    """
    from hpcai.campaign.doctor import diagnose, wait_until_idle
    from hpcai.campaign.doctor_text import diagnosis_as_dict, say_diagnosis
    from hpcai.core.files import write_asked_json

    with _readable():
        if wait is not None:
            try:
                wait_until_idle(results, _say, wait)
            except KeyboardInterrupt:
                _say("waits no longer")
        diagnosis = diagnose(results, study, check_files=check_files, gpu=gpu)
    if json:
        write_asked_json(json, diagnosis_as_dict(diagnosis))
    print(say_diagnosis(diagnosis))
    return diagnosis.exit_status


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: cannot be read ({error.strerror}); ask its owner for access, or try again when the "
            f"file system is back"
        ) from error


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@app.command(cls=Command)
def efficiency(
    results: Results = RESULTS,
    csv: Annotated[Path | None, option("FILE", "write all runs; other jobs go to FILE_jobs in the same folder")] = None,
    sacct: Annotated[
        str | None,
        option(
            "FILE",
            "output of `sacct -P --format=JobID,Comment,State,ElapsedRaw,TotalCPU,MaxRSS,AllocTRES,TimelimitRaw`, "
            "or 'auto' to query Slurm's accounting: adds jobs other than runs",
        ),
    ] = None,
) -> None:
    """Report the resources that each run requested and used."""
    from hpcai.campaign.efficiency_report import report_efficiency

    report_efficiency(results, csv, sacct)


def _duration(text: str | float) -> float:
    """Return a time [s] that is written with its unit."""
    from hpcai.core.units import to_si

    try:
        return to_si(text, "s")
    except ValueError:
        raise typer.BadParameter(f"found {text!r}, expected a time such as 24h") from None


@app.command(cls=Command)
def acceptance(
    judged: Annotated[Path, argument("FILE", "acceptance.json of `snakemake acceptance`")] = RESULTS
    / "acceptance/acceptance.json",
    most_age: Annotated[
        float | None, option("TIME", "largest age, such as 24h: older is refused", parser=_duration)
    ] = None,
) -> int:
    """Say which nodes and pairs an acceptance found healthy, suspicious or broken.

    Exit status: 0 healthy, 1 bad input or no acceptance, 2 suspicious, 3 broken, 4 older than asked for.
    """
    from hpcai.metrics.acceptance import say_accepted
    from hpcai.records.acceptance import Accepted, is_young
    from hpcai.records.files import read_part

    accepted = read_part(Accepted, judged, "`snakemake acceptance` measures the nodes and writes it")
    print(say_accepted(accepted))
    status = {"healthy": 0, "suspicious": 2, "broken": 3}[accepted.verdict]
    is_old = most_age is not None and not is_young(accepted, most_age)
    return 4 if is_old and not status else status
