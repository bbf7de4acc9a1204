"""Command line of the library: ``hpcai COMMAND --help``."""

import argparse
import json
import logging
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from hpcai.campaign import command as campaign_command
from hpcai.campaign import efficiency_command, estimate_command
from hpcai.core.errors import HpcaiError, ResultsError
from hpcai.core.files import write_asked, write_asked_json, written_where_asked
from hpcai.launchers.registry import LAUNCHERS
from hpcai.mlperf_hpc.analysis import command as import_command
from hpcai.mlperf_hpc.analysis import prediction_command
from hpcai.mlperf_hpc.compliance import command as check_command
from hpcai.mlperf_hpc.submission import command as submit_command

NO_ACCESS = "ask its owner for access, or make room, or look again when the file system is back"


class _Parser(argparse.ArgumentParser):
    """A parser for which a wrong command line is bad input as any other: status 1, because 2 means a regression."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and one sentence, and exit with status 1."""
        self.print_usage(sys.stderr)
        self.exit(1, f"error: {message}\n")


def main() -> int:
    """Run one command; return its status: 0, or 1 after one clear sentence; a verdict has more."""
    arguments = _parser().parse_args()
    status: int | None = 0
    try:
        if getattr(arguments, "log", None):
            _log_to(arguments.log)
        status = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except HpcaiError as error:
        if getattr(arguments, "log", None):
            logging.getLogger(__name__).critical("%s", error)
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except OSError as error:  # a file of somebody else, a full or absent file system: nothing that code can foresee
        if getattr(arguments, "log", None):
            logging.getLogger(__name__).critical("%s", error, exc_info=True)
        print(f"error: {error.filename or 'a file'}: {error.strerror or error}; {NO_ACCESS}", file=sys.stderr)
        return 1
    return status or 0


def _log_to(path: Path) -> None:
    # Messages that a full disk does not take are no errors of their own.
    logging.raiseExceptions = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=path, filemode="w", level=logging.INFO, format="%(asctime)s %(message)s")
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); make room, or repair its folder") from error


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="hpcai", description="HPC-AI Bench: what the workflow calls, and repairs.")
    parser.add_argument("--version", action="version", version=f"HPC-AI Bench {metadata.version('hpcai')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    schema = commands.add_parser("schema", help="print the JSON schema of all configuration files")
    schema.set_defaults(run=_schema)

    check = commands.add_parser("check", help="check a study and all files that it names")
    check.add_argument("study", type=Path, nargs="?", default=Path("config/study.yaml"))
    check.add_argument(
        "--profile", metavar="NAME", help="ask Slurm whether it would take each kind of job that this profile submits"
    )
    check.set_defaults(run=_check)

    rules = commands.add_parser("rules", help="print the rules of the suites, or what a study can be valid for")
    rules.add_argument("study", type=Path, nargs="?", help="a study file; without it the rules are printed")
    rules.set_defaults(run=_rules)

    measure = commands.add_parser("measure", help="measure one run and publish its record")
    measure.set_defaults(run=_measure)
    capture = commands.add_parser("capture", help="make one profiled run, or say why it cannot be made")
    capture.set_defaults(run=_capture)
    for run in (measure, capture):
        run.add_argument("--plan", type=Path, required=True)
        _add_run_options(run, "folder of the run, where its record is published")

    weak = commands.add_parser(
        "measure-weak", help="measure a weak-scaling group: several instances of a run at the same time"
    )
    weak.add_argument("--plans", type=Path, nargs="+", required=True, help="plans of all instances")
    weak.set_defaults(run=_measure_weak)
    _add_run_options(weak, "folder of the group, where its instances are published")

    read = commands.add_parser(
        "read", help="print the table of a profiler's, benchmark's or power meter's output as CSV"
    )
    read.add_argument("file", type=Path, nargs="+", help="one; of Darshan several logs, or a folder with them")
    read.add_argument("--data-root", help="Darshan: only files below this folder count as data")
    read.add_argument("--devices", type=int, help="nvidia-smi: GPUs of a query without index or uuid")
    read.add_argument("--unit", choices=("W", "mW", "kW"), help="table of power: unit of a header that names none")
    read.add_argument("--tool", help="name of the reader, such as nccl-tests; by default all are tried")
    read.add_argument("--list", action=_ListReaders, nargs=0, help="show the readers and exit")
    read.add_argument("--output", type=Path, help="write the table to a .csv or .parquet file instead")
    read.set_defaults(run=_read)

    retry = commands.add_parser("retry", help="let runs that broke down and profiles without a tool be tried again")
    retry.add_argument("runs", type=Path, nargs="?", default=Path("results"), help="by default all runs and profiles")
    retry.set_defaults(run=_retry)

    discard = commands.add_parser(
        "discard", help="put runs aside (moved, not deleted), so that they are measured again"
    )
    discard.add_argument("folder", type=Path, help="of a run, or above several, such as results/profiles/io")
    discard.add_argument("--reason", required=True)
    discard.set_defaults(run=_discard)

    restore = commands.add_parser("restore", help="put back the record of a published run from the copy that is right")
    restore.add_argument("folder", type=Path)
    restore.set_defaults(run=_restore)

    _add_campaign(commands)
    _add_comparisons(commands)
    _add_mlperf(commands)
    return parser


class _ListReaders(argparse.Action):
    """Shows the readers; no file is needed for that."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print their names and what they read, and exit."""
        from hpcai.parsers.registry import list_readers

        print(list_readers())
        parser.exit()


def _add_run_options(command: _Parser, folder: str) -> None:
    choices = "; ".join(f"{name}: {launcher.summary}" for name, launcher in LAUNCHERS.items())
    command.add_argument("--manifest", type=Path, required=True, help="manifest of the dataset")
    # Rules write this option always; where nothing is packed, it has no value.
    command.add_argument("--pack", type=Path, nargs="?", help="manifest of the packed dataset, if it is staged")
    command.add_argument("--launcher", required=True, help=choices)
    command.add_argument("--folder", type=Path, required=True, help=folder)
    command.add_argument("--log", type=Path)


def _add_campaign(commands: "argparse._SubParsersAction[_Parser]") -> None:
    doctor, status = campaign_command.add_doctor_arguments, campaign_command.add_status_arguments
    for name, words, add_arguments, run in (
        ("estimate", "say what a study will take: node-hours, storage, files", estimate_command.add_arguments,
         estimate_command.run),
        ("status", "say how far a running campaign is", status, campaign_command.run_status),
        ("doctor", "say what state a results folder is in, and the one command to run next", doctor,
         campaign_command.run_doctor),
        ("efficiency", "say what each run asked for and what it used", efficiency_command.add_arguments,
         efficiency_command.run),
    ):  # fmt: skip
        parser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        add_arguments(parser)
        parser.set_defaults(run=run)

    # All that follows is Snakemake's: nothing of it is an option of this parser.
    whole = commands.add_parser(
        "run", help="run the workflow with one screen, and say where the time went", prefix_chars="\0", add_help=False
    )
    whole.add_argument("arguments", nargs=argparse.REMAINDER)
    whole.set_defaults(run=_run)


def _add_comparisons(commands: "argparse._SubParsersAction[_Parser]") -> None:
    compare = commands.add_parser(
        "compare",
        help="show what changed between two results: settings, code, machine, software, and every score",
        description="Show what changed between two results folders. Exit status: 0, or 1 for bad input.",
    )
    compare.add_argument("base", type=Path, help="results folder of the earlier study, such as results")
    compare.add_argument("new", type=Path, help="results folder of the later study")
    compare.add_argument("--all", action="store_true", help="print all scores, not only the most important")
    compare.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    compare.add_argument("--csv", type=Path, metavar="FILE", help="write the scores, and beside it FILE_changes")
    compare.set_defaults(run=_compare)

    regress = commands.add_parser(
        "regress",
        help="judge whether a result is worse than another, for continuous benchmarking",
        description="Judge whether NEW is worse than BASE. A regression is significant and larger than the tolerance, "
        "or a loss of convergence (Fisher's exact test), or a point whose runs all break down. Points that NEW lacks "
        "or that cannot be compared are inconclusive; another validity is named, but decides nothing. Exit status: 0 "
        "no regression, 1 bad input, 2 regression, 3 inconclusive: with --require-conclusive, and always where NEW "
        "lacks points that BASE has measured (lost points), unless --allow-lost is given; otherwise 0. With two or "
        "three runs on a side a regression rests on the assumption of normal scatter; one run shows none.",
    )
    regress.add_argument("base", type=Path, help="results folder to compare with")
    regress.add_argument("new", type=Path, help="results folder to judge")
    regress.add_argument("--require-conclusive", action="store_true", help="exit with 3 if too few runs tell nothing")
    regress.add_argument("--allow-lost", action="store_true", help="NEW may lack points: it repeats a part of BASE")
    regress.add_argument("--json", type=Path, metavar="FILE", help="write the verdict and its reasons as JSON")
    regress.set_defaults(run=_regress)

    history = commands.add_parser(
        "history",
        help="show the scores of many results in the order of time",
        description="Show each score over many results. Exit status: 0, or 1 for bad input.",
    )
    history.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="results folders in any order")
    history.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON")
    history.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV")
    history.set_defaults(run=_history)
    for command in (regress, history):
        command.add_argument("--tolerance", type=float, default=0.05, metavar="RATIO", help="default: 0.05")
        command.add_argument(
            "--measure",
            action="append",
            metavar="NAME",
            help="score that counts, may be repeated (default: time to "
            "train, VFLOPS and training throughput); a wrong name lists all",
        )


def _add_mlperf(commands: "argparse._SubParsersAction[_Parser]") -> None:
    mlperf = commands.add_parser("mlperf", help="published rounds and submissions of MLPerf HPC")
    names = mlperf.add_subparsers(required=True, metavar="COMMAND")
    for name, words, command, run in (
        ("import", "import published rounds as a results folder like that of a study", import_command, _import_rounds),
        ("check", "judge a log, a package or a repository; exit status 2: does not comply", check_command, None),
        ("predict", "predict the time to solution of a scale and batch that nobody ran", prediction_command, None),
        ("submit", "write own runs as a submission, and check it", submit_command, None),
    ):
        parser = names.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        command.add_arguments(parser)
        parser.set_defaults(run=run or command.run)


# Each command imports what it needs: `hpcai --help` answers at once.


def _import_rounds(arguments: argparse.Namespace) -> int:
    from hpcai.metrics.run_tables import write_tables

    return import_command.run(arguments, write_tables)


def _run(arguments: argparse.Namespace) -> int:
    from hpcai.campaign.run_command import run

    return run(arguments.arguments)


def _schema(_: argparse.Namespace) -> None:
    from hpcai.config.schema import json_schema

    print(json.dumps(json_schema(), indent=1))


def _check(arguments: argparse.Namespace) -> None:
    from hpcai.config.load import load_study_file

    campaign = load_study_file(arguments.study)
    print(f"{arguments.study}: valid; {len(campaign.plans())} runs of {len(campaign.benchmarks)} benchmarks")
    if arguments.profile:
        from hpcai.campaign.sbatch_trial import try_profile

        print(try_profile(campaign, arguments.study, arguments.profile))


def _rules(arguments: argparse.Namespace) -> None:
    from hpcai.config.load import load_study_file
    from hpcai.rules.listing import list_rules, list_verdicts

    print(list_verdicts(load_study_file(arguments.study)) if arguments.study else list_rules())


def _measure(arguments: argparse.Namespace) -> None:
    from hpcai.measure.supervise import Inputs, measure

    inputs = Inputs(arguments.plan, arguments.manifest, arguments.pack)
    measure(inputs, arguments.folder, arguments.launcher)


def _capture(arguments: argparse.Namespace) -> None:
    from hpcai.measure.capture import capture
    from hpcai.measure.supervise import Inputs

    inputs = Inputs(arguments.plan, arguments.manifest, arguments.pack)
    capture(inputs, arguments.folder, arguments.launcher)


def _measure_weak(arguments: argparse.Namespace) -> None:
    from hpcai.measure.weak import GroupInputs, measure_weak

    inputs = GroupInputs(tuple(arguments.plans), arguments.manifest, arguments.pack)
    measure_weak(inputs, arguments.folder, arguments.launcher)


def _read(arguments: argparse.Namespace) -> None:
    from hpcai.core.table_files import write_parquet
    from hpcai.parsers.registry import read_as_asked

    options = {"devices": arguments.devices, "unit": arguments.unit}
    reading = read_as_asked(arguments.file, arguments.tool, arguments.data_root, options)
    whole = f"{reading.complete_records} of {reading.seen_records} records"
    print(f"{arguments.file[0]}: {reading.tool}, {whole}", *reading.reasons, sep="\n  ", file=sys.stderr)
    output = arguments.output
    if output is None:
        reading.table.to_csv(sys.stdout, index=False)
    elif output.suffix == ".parquet":
        with written_where_asked(output):
            write_parquet(reading.table, output)
    else:
        write_asked(output, reading.table.to_csv(index=False))


def _retry(arguments: argparse.Namespace) -> None:
    from hpcai.measure.publish import forget_breakdowns

    folders = forget_breakdowns(arguments.runs)
    for folder in folders:
        print(f"{folder}: will be measured again")
    print(f"{len(folders)} runs to repeat; start the workflow again")


def _discard(arguments: argparse.Namespace) -> None:
    from hpcai.measure.publish import discard_all

    for moved in discard_all(arguments.folder, arguments.reason):
        print(f"moved to {moved}")


def _restore(arguments: argparse.Namespace) -> None:
    from hpcai.measure.publish import restore

    print(f"{arguments.folder}: both copies of its record are now as {restore(arguments.folder)}")


def _compare(arguments: argparse.Namespace) -> None:
    from hpcai.compare.comparison import compare_folders
    from hpcai.compare.output import comparison_as_dict, write_comparison
    from hpcai.compare.text import say_comparison

    comparison = compare_folders(arguments.base, arguments.new)
    if arguments.json:
        write_asked_json(arguments.json, comparison_as_dict(comparison))
    if arguments.csv:
        write_comparison(comparison, arguments.csv)
    print(say_comparison(comparison, everything=arguments.all))


def _regress(arguments: argparse.Namespace) -> int:
    from hpcai.compare.measures import HEADLINES
    from hpcai.compare.output import regression_as_dict
    from hpcai.compare.text import say_regression
    from hpcai.compare.verdict import regress_folders

    measures = arguments.measure or HEADLINES
    regression = regress_folders(arguments.base, arguments.new, arguments.tolerance, measures)
    if arguments.json:
        write_asked_json(arguments.json, regression_as_dict(regression))
    print(say_regression(regression))
    return regression.exit_code(require_conclusive=arguments.require_conclusive, allow_lost=arguments.allow_lost)


def _history(arguments: argparse.Namespace) -> None:
    from hpcai.compare.history import history_of
    from hpcai.compare.measures import HEADLINES
    from hpcai.compare.output import history_as_dict, write_frame
    from hpcai.compare.text import say_history

    history = history_of(arguments.folders, arguments.measure or HEADLINES, arguments.tolerance)
    if arguments.json:
        write_asked_json(arguments.json, history_as_dict(history))
    if arguments.csv:
        write_frame(history, arguments.csv)
    print(say_history(history))


if __name__ == "__main__":
    sys.exit(main())
