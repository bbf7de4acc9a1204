"""The commands ``hpcai doctor`` and ``hpcai status``."""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.core.errors import ConfigError

RESULTS = Path("results")
REDRAW_S = 10.0
CLEAR = "\x1b[H\x1b[2J"


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hpcai doctor``."""
    parser.description = (
        "Say what state everything in a results folder is in, and the one command to run next. Nothing is changed. "
        "Exit status: 0 all finished and well, 1 bad input, 2 something is missing, broken down or under way, "
        "3 something is damaged."
    )
    _add_results(parser)
    parser.add_argument("--study", type=Path, metavar="FILE", help="compare with this study, not with the last start")
    parser.add_argument(
        "--check-files", action="store_true", help="check every raw file against its record; reads everything"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings as JSON")
    parser.add_argument(
        "--wait",
        type=_positive_s,
        nargs="?",
        const=math.inf,
        metavar="SECONDS",
        help="first wait, at most so long, until nothing is under way any more",
    )


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hpcai status``."""
    parser.description = "Say how far a running campaign is, and when its measurements are expected to end."
    _add_results(parser)
    parser.add_argument(
        "--watch",
        type=_positive_s,
        nargs="?",
        const=REDRAW_S,
        metavar="SECONDS",
        help=f"say it again every so many seconds (default: {REDRAW_S:g}) until nothing is under way any more",
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS, help="results folder (default: results)")


def _positive_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of seconds above 0")
    return seconds


def run_doctor(arguments: argparse.Namespace) -> int:
    """Wait if asked to, look, print, and return what the exit status says."""
    from hpcai.campaign.doctor import diagnose, wait_until_idle
    from hpcai.campaign.doctor_text import diagnosis_as_dict, say_diagnosis
    from hpcai.core.files import write_asked_json

    with _readable():
        if arguments.wait is not None:
            try:
                wait_until_idle(arguments.results, _say, arguments.wait)
            except KeyboardInterrupt:
                _say("waits no longer")
        diagnosis = diagnose(arguments.results, arguments.study, check_files=arguments.check_files)
    if arguments.json:
        write_asked_json(arguments.json, diagnosis_as_dict(diagnosis))
    print(say_diagnosis(diagnosis))
    return diagnosis.exit_status


def run_status(arguments: argparse.Namespace) -> int:
    """Print the status once, or again and again until nothing is under way; Ctrl-C ends that quietly."""
    from hpcai.campaign.status import say_status, status_of

    try:
        while True:
            with _readable():
                status = status_of(arguments.results)
            clear = CLEAR if arguments.watch is not None and sys.stdout.isatty() else ""
            print(f"{clear}{say_status(status)}", flush=True)
            if arguments.watch is None or status.is_over:
                return 0
            time.sleep(arguments.watch)
    except KeyboardInterrupt:
        return 0


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
