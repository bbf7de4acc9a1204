"""Commands for published rounds and submissions of MLPerf HPC."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcai.cli.options import Command, Group, StudyResults, argument, choice, flag, option, takes
from hpcai.cli.predict_round import EPILOGUE, predict_round

app = typer.Typer(cls=Group, help="Published rounds and submissions of MLPerf HPC.")
DOES_NOT_COMPLY = FAILS = 2


@app.command("import", cls=Command)
def import_rounds(
    sources: Annotated[
        list[Path],
        argument(
            "SOURCE",
            "result repository, organisation's folder, folder of logs, log, or .tar/.tar.gz/.tar.xz/.tar.bz2/.zip",
        ),
    ],
    output: Annotated[Path, option("DIR", "results folder to write")],
    name: Annotated[
        str | None, option("NAME", 'name of the round, such as "v1.0" (default: what the source says)')
    ] = None,
    rule_set: Annotated[
        str | None, option("VERSION", "rules for all logs, such as 2.0.0 (default: determined for each source)")
    ] = None,
) -> None:
    """Import published rounds as a results folder like that of a study."""
    from hpcai.metrics.run_tables import write_tables
    from hpcai.mlperf_hpc.analysis.import_text import summarise_import
    from hpcai.mlperf_hpc.analysis.results_folder import read_rounds, write_import

    rounds = read_rounds(sources, name=name, rule_set=rule_set)
    tables = write_import(rounds, output, write_tables)
    print("\n".join(line for checked in rounds for line in summarise_import(checked, tables)))
    print(f"written: {output}, which `hpcai compare`, `rank_with` and `compare_with` accept as results of a study")


@app.command(cls=Command)
def page(
    rounds: Annotated[list[Path], argument("FOLDER", "output of `hpcai mlperf import`")],
    output: Annotated[Path, option("DIR", "folder for rounds.html and rounds_page/")],
) -> None:
    """Write the page on imported rounds: all of them compared."""
    from hpcai.report.own_pages import write_page_of

    print(write_page_of(rounds, output).resolve().as_uri())


@app.command(cls=Command)
def check(
    source: Annotated[Path, argument("SOURCE", "log, package, repository or archive to check; it is only read")],
    rule_set: Annotated[
        str | None, option("VERSION", "1.0.0, 2.0.0 or 3.0.0; default: determined automatically")
    ] = None,
    json: Annotated[Path | None, option("FILE", "write the whole verdict as JSON")] = None,
    warnings: Annotated[bool, flag("--warnings", "print warnings as well; they do not affect the verdict")] = False,
    ungrouped: Annotated[bool, flag("--all", "print every finding on its own line, ungrouped")] = False,
) -> int:
    """Judge a log, a package or a repository; exit status 2: does not comply.

    A log, a folder of logs, an organisation's folder, a repository of results or an archive is judged by the rules of
    the package mlperf_logging. Exit status: 0 it complies, 1 bad input, 2 it does not comply.
    """
    from hpcai.core.files import write_asked_json
    from hpcai.mlperf_hpc.compliance.verdict import judge
    from hpcai.mlperf_hpc.compliance.verdict_text import describe_verdict

    verdict = judge(source, rule_set)
    if json is not None:
        write_asked_json(json, verdict.to_json())
    for line in describe_verdict(verdict, warnings=warnings, ungrouped=ungrouped):
        print(line)
    return 0 if verdict.complies else DOES_NOT_COMPLY


app.command("predict", cls=Command, epilog=EPILOGUE)(predict_round)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `hpcai mlperf submit`."""

    results: StudyResults
    output: Annotated[Path, option("DIR", "folder to write")]
    org: Annotated[str | None, option("NAME", "submitting organisation (default: that of the study)")] = None
    system: Annotated[str | None, option("NAME", "first part of the systems' names (default: the machine's name)")] = (
        None
    )
    benchmark: Annotated[list[str] | None, option("NAME", "benchmark file or folder, may be repeated")] = None
    scale: Annotated[list[str] | None, option("SCALE", "such as n2x4, may be repeated")] = None
    rule_set: Annotated[Literal["1.0.0", "2.0.0", "3.0.0"] | None, choice("default: that of the study")] = None


@app.command(cls=Command)
@takes(Wanted)
def submit(asked: Wanted) -> int:
    """Write own runs as a submission, and check it.

    Turns the runs of a finished study into the tree that MLPerf HPC requires, and runs the official package checker.
    Exit status: 0 no failures, 1 bad input, 2 the tree was written but fails checks.
    """
    from hpcai.mlperf_hpc.submission.model import Request
    from hpcai.mlperf_hpc.submission.write import say_written, write_submission

    request = Request(
        results=asked.results,
        output=asked.output,
        org=asked.org,
        system=asked.system,
        benchmarks=tuple(asked.benchmark or ()),
        scales=tuple(asked.scale or ()),
        rule_set=asked.rule_set,
    )
    written = write_submission(request)
    print(say_written(written, asked.output))
    return FAILS if written.failures else 0
