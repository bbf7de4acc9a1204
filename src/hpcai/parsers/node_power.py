"""Node power polled from management controllers: ``timestamp,n1_watts,n2_watts,total_watts``."""

import re
from datetime import datetime
from pathlib import Path

from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, add_watts, count_from_first, rows_of
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

TOOL = "a table of node power"
ADVICE = "write a header with `timestamp` and one column `<node>_watts` per node, times as 2026-05-05T19:14:51"
POWER = re.compile(r"(\w+?)_(?:watts|w)")


def read_node_power(path: Path) -> Reading:
    """Read power samples of nodes: one row per time and node.

    A line whose total differs from the sum of its values is omitted. If there is only a total, the device is
    ``total``.
    ``time_s`` counts from the first sample (fact ``start``, as printed).

    Raises
    ------
    ParseError
        If there is no table with time stamps and power.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    stamps: dict[int, datetime | None] = {}
    for number, fields in rows_of(
        findings, lines, lambda line: re.match(r"timestamp\s*,.*_w(atts)?\b", line) is not None
    ):
        stamps[number] = _stamp(fields["timestamp"])
        texts = {match[1]: fields[name] for name in fields if (match := POWER.fullmatch(name))}
        add_watts(findings, number, {node: to_number(text) for node, text in texts.items()})
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    count_from_first(findings, [stamps[record["line"]] for record in findings.records])
    return findings.reading(COLUMNS, ADVICE)


def _stamp(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


READER = Reader("node-power", "log of node power", read_node_power, looks=("a log of node power",))
