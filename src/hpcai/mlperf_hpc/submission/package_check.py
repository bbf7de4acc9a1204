"""Run the official package checker and parse its output, because it always exits with status 0."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from hpcai.core.messages import Message

BROKE_DOWN = Message("package_check.broke_down", "the package checker failed: {words}")

NO_ERRORS = "PACKAGE CHECKER FOUND NO ERRORS"
ERRORS = "PACKAGE CHECKER FOUND ERRORS"
LIMIT_S = 1800
_FOLDER = re.compile(r"Running compliance checks in dir (\S+)")
_FILE = re.compile(r"Running compliance on file: (\S+)")
_OF_FOLDER = re.compile(r"files? do(es)? not comply")
_LEVEL = re.compile(r"(INFO|WARNING|ERROR|CRITICAL) - ")


@dataclass(frozen=True, order=True)
class Remark:
    """A warning or an error of the package checker, with the file or folder being checked."""

    place: str
    level: str
    text: str


@dataclass(frozen=True)
class CheckerText:
    """Output of the package checker.

    Attributes
    ----------
    passes
        Whether it reports no errors.
    conclusion
        Its conclusion, or why there is none.
    remarks
        Its warnings and errors, sorted by place, because it visits folders in arbitrary order.
    """

    passes: bool
    conclusion: str
    remarks: tuple[Remark, ...]


def check_package(organisation: Path, rule_set: str) -> CheckerText:
    """Check the folder of an organisation with ``mlperf_logging.package_checker``.

    It writes ``scaling.json`` next to the results of closed divisions that converge faster than the reference, as for
    every submitter; its own log goes to a temporary folder.

    Parameters
    ----------
    organisation
        ``ORG`` with ``systems``, ``benchmarks`` and ``results``.
    rule_set
        1.0.0, 2.0.0 or 3.0.0.
    """
    with tempfile.TemporaryDirectory(prefix="hpcai-package-") as folder:
        # The checker sees the tree through a link, so its output does not disclose the location.
        (Path(folder) / organisation.name).symlink_to(organisation.resolve(), target_is_directory=True)
        command = [sys.executable, "-m", "mlperf_logging.package_checker", organisation.name, "hpc", rule_set]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return CheckerText(False, f"the package checker did not end within {LIMIT_S} s", ())
    return read_verdict(done.stderr)


def read_verdict(text: str) -> CheckerText:
    """Parse the verdict in the package checker's output.

    Parameters
    ----------
    text
        Its standard error. Output without a conclusion means that the checker failed.
    """
    lines = text.splitlines()
    remarks = tuple(sorted(set(_remarks(lines))))
    last = next((line for line in reversed(lines) if NO_ERRORS in line or ERRORS in line), "")
    if last:
        return CheckerText(NO_ERRORS in last, last.partition(" - ")[2], remarks)
    words = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return CheckerText(False, BROKE_DOWN(words=words), remarks)


def _remarks(lines: Sequence[str]) -> Iterator[Remark]:
    """Yield warnings and errors, each with its continuation lines.

    Warnings concern single logs; errors concern their folder.
    """
    folder = file = ""
    level, words = "INFO", list[str]()
    for line in (*takewhile(lambda line: not line.startswith("Traceback"), lines), "INFO - end"):
        started = _LEVEL.match(line)
        if not started:
            words.append(line.strip())
            continue
        if level != "INFO":
            text = " ".join(word for word in words if word.strip("-"))
            of_log = file and level == "WARNING" and not _OF_FOLDER.search(text)
            yield Remark(file if of_log else folder, level, text)
        level, words = started[1], [line[started.end() :].strip()]
        if found := _FOLDER.search(line):
            folder, file = found[1], ""
        elif found := _FILE.search(line):
            file = found[1]
        elif "Running Seed Checker" in line:
            file = ""
