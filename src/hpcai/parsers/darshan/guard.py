"""Start the process that reads Darshan logs, and restart it after a log that ended it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from hpcai.core.errors import ParseError
from hpcai.core.programs import LONGEST_QUOTE, say_ending
from hpcai.parsers.darshan.child import LOG_LIMIT_S

PROGRAM = (sys.executable, "-P", "-m", "hpcai.parsers.darshan.child")
START_LIMIT_S = 120

Answer = dict[str, Any]


def read_guarded(paths: Sequence[Path], table: str, program: Sequence[str] = PROGRAM) -> list[Answer]:
    """Return one answer per log, in order: the child's result, or ``error`` with the reason.

    Parameters
    ----------
    paths
        The logs.
    table
        ``records`` or ``segments``.
    program
        The command line of the child.

    Raises
    ------
    ParseError
        If the child cannot start at all.
    """
    answers: list[Answer] = []
    while len(answers) < len(paths):
        answers += _answer_some(paths[len(answers) :], table, program)
    return answers


def _answer_some(paths: Sequence[Path], table: str, program: Sequence[str]) -> list[Answer]:
    """Return the answers of one child; add an error for the log that ended it early."""
    request = json.dumps({"table": table, "paths": [str(path) for path in paths]})
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        ending = _run(program, request, output, errors, START_LIMIT_S + LOG_LIMIT_S * len(paths))
        output.seek(0)
        errors.seek(0)
        lines, printed = output.read().split(b"\n")[:-1], errors.read()
    if not lines:
        raise ParseError(f"reading Darshan logs: the process with PyDarshan {ending}: {_last_words(printed)}")
    answers = [_judge(json.loads(line), path, printed) for line, path in zip(lines[1:], paths, strict=False)]
    if len(answers) < len(paths):
        path, words = paths[len(answers)], _last_words(printed)
        answers.append({"error": f"{path}: the process that read this log {ending}; the log is damaged ({words})"})
    return answers


def _run(program: Sequence[str], request: str, output: IO[bytes], errors: IO[bytes], limit_s: float) -> str:
    """Run the child and return how it ended, as the end of a sentence."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        status = subprocess.run(
            program,
            input=request.encode(),
            stdout=output,
            stderr=errors,
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},
            timeout=limit_s,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return f"did not end within {limit_s} s"
    if status == -signal.SIGALRM:
        return f"took longer than {LOG_LIMIT_S} s"
    return say_ending(status)


def _last_words(printed: bytes) -> str:
    return printed.decode("utf-8", "backslashreplace").strip()[-LONGEST_QUOTE:]


def _judge(answer: Answer, path: Path, printed: bytes) -> Answer:
    """Return an answer; anything on standard error while the log was read makes it a failure."""
    start, end = answer.pop("printed", (0, 0))
    words = _last_words(printed[start:end])
    if not words:
        return answer
    before = answer.get("error", f"{path}: damaged")
    return {"error": f"{before}; PyDarshan printed: {words}"}
