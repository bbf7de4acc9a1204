"""Command line of the library: ``hpcai COMMAND --help``."""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from hpcai.errors import HpcaiError


def main() -> int:
    """Run one command; return 0, or 1 after one clear sentence."""
    arguments = _parser().parse_args()
    if getattr(arguments, "log", None):
        arguments.log.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=arguments.log, filemode="w", level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except HpcaiError as error:
        if getattr(arguments, "log", None):
            logging.getLogger(__name__).critical("%s", error)
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hpcai", description="HPC-AI Bench: what the workflow calls, and repairs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    schema = commands.add_parser("schema", help="print the JSON schema of all configuration files")
    schema.set_defaults(run=_schema)

    check = commands.add_parser("check", help="check a study and all files that it names")
    check.add_argument("study", type=Path, nargs="?", default=Path("config/study.yaml"))
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
        run.add_argument("--manifest", type=Path, required=True, help="manifest of the dataset")
        run.add_argument("--pack", type=Path, help="manifest of the packed dataset, if it is staged")
        run.add_argument("--launcher", required=True, help="horovodrun, mpirun or srun")
        run.add_argument("--folder", type=Path, required=True, help="folder of the run, where its record is published")
        run.add_argument("--log", type=Path)

    read = commands.add_parser(
        "read", help="print the table of a profiler's, benchmark's or power meter's output as CSV"
    )
    read.add_argument("file", type=Path)
    read.add_argument("--tool", help="name of the reader, such as nccl-tests; by default all are tried")
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

    restore = commands.add_parser("restore", help="put back the record of a published run from its raw folder")
    restore.add_argument("folder", type=Path)
    restore.set_defaults(run=_restore)
    return parser


# Each command imports what it needs: `hpcai --help` answers at once.


def _schema(_: argparse.Namespace) -> None:
    from hpcai.config.schema import json_schema

    print(json.dumps(json_schema(), indent=1))


def _check(arguments: argparse.Namespace) -> None:
    from hpcai.config.load import load_study_file

    campaign = load_study_file(arguments.study)
    print(f"{arguments.study}: valid; {len(campaign.plans())} runs of {len(campaign.benchmarks)} benchmarks")


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


def _read(arguments: argparse.Namespace) -> None:
    from hpcai.errors import ConfigError
    from hpcai.parsers.registry import READERS, read_artefact

    if arguments.tool not in (None, *READERS):
        raise ConfigError(f"--tool: found {arguments.tool}; allowed: {', '.join(READERS)}")
    reading = read_artefact(arguments.file, arguments.tool)
    whole = f"{reading.complete_records} of {reading.seen_records} records"
    print(f"{arguments.file}: {reading.tool}, {whole}", *reading.reasons, sep="\n  ", file=sys.stderr)
    if arguments.output and arguments.output.suffix == ".parquet":
        reading.table.to_parquet(arguments.output, index=False)
    else:
        reading.table.to_csv(arguments.output or sys.stdout, index=False)


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
    from hpcai.measure.publish import RAW, RECORD, republish
    from hpcai.records import read_record

    read_record(arguments.folder / RAW / RECORD)
    republish(arguments.folder)
    print(f"{arguments.folder / RECORD}: restored")


if __name__ == "__main__":
    sys.exit(main())
