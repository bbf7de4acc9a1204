"""Loads of a node as ``uptime`` prints them."""

import re
from pathlib import Path

import pandas as pd

from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.text import read_lines

TOOL = "uptime"
LINE = re.compile(r"^ ?(?P<time>\d\d:\d\d:\d\d) up .*load average: (?P<load>\d+\.\d\d), \d+\.\d\d, \d+\.\d\d$")


def read_uptime(path: Path) -> Reading:
    """Return one row per line: ``time_of_day`` and ``load_1min`` (processes, mean of a minute).

    Raises
    ------
    ParseError
        If no line is one of ``uptime``.
    """
    lines = [line for line in read_lines(path, TOOL) if line.strip()]
    rows = [match.groupdict() for line in lines if (match := LINE.match(line))]
    if not rows:
        raise nothing_read(path, TOOL, "no line with a load average", "keep the output of `uptime`")
    times, loads = [row["time"] for row in rows], [float(row["load"]) for row in rows]
    damaged = len(lines) - len(rows)
    reasons = (f"{damaged} lines are none of uptime",) if damaged else ()
    return Reading(pd.DataFrame({"time_of_day": times, "load_1min": loads}), TOOL, path, len(rows), len(lines), reasons)


READER = Reader("uptime", "loads that `uptime` prints", read_uptime)
