"""Rate of MPI's messages between two processes, for an HPL that does not measure it beside itself as ``hpcc`` does."""

import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)
LONGEST_S = 60.0


def measure_message_rate(
    start: Callable[[str], Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> float | None:
    """Compile ``pingpong.c`` and start it; return the median rate of messages of 2 MB [B/s], None if that fails.

    Parameters
    ----------
    start
        Returns the command that starts a program on two processes.
    folder
        Gets the program for as long as it runs: a folder that all nodes see.
    environment
        Variables besides those of this process.
    """
    with tempfile.TemporaryDirectory(prefix="pingpong-", dir=folder) as place:
        program = Path(place) / "pingpong"
        compiling = ["mpicc", "-O2", "-o", str(program), str(Path(__file__).with_name("pingpong.c"))]
        try:
            _call(compiling, {})
            said = _call(start(str(program)), environment)
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("the rate of messages was not measured: %s: %s", error, getattr(error, "stderr", None) or "")
            return None
    found = re.search(r"^message_rate_bytes_per_s=(\S+)$", said, re.MULTILINE)
    if found is None:
        logger.warning("the rate of messages was not measured: no two processes of one MPI program started: %s", said)
        return None
    return float(found[1])


def _call(command: Sequence[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(
        command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=True, timeout=LONGEST_S,
    ).stdout  # fmt: skip
