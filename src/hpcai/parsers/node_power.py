"""Power of whole nodes, as management controllers are polled: ``timestamp,n1_watts,n2_watts,total_watts``."""

import math
import re
from datetime import datetime
from pathlib import Path

from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, count_from_first, rows_of, sample
from hpcai.parsers.reading import Reading

TOOL = "a table of node power"
ADVICE = "write a header with `timestamp` and one column `<node>_watts` per node, times as 2026-05-05T19:14:51"
POWER = re.compile(r"(\w+?)_(?:watts|w)")
TOTAL = "total"


def read_node_power(path: Path) -> Reading:
    """Read power samples of nodes: one row per time and node.

    A line whose total is not the sum of the printed numbers is left out. Where there is only a total, the device is
    ``total``.
    ``time_s`` counts from the first sample (fact ``start``, as printed).

    Raises
    ------
    ParseError
        If there is no table with a time stamp and power.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    stamps: dict[int, datetime | None] = {}
    for number, fields in rows_of(
        findings, lines, lambda line: re.match(r"timestamp\s*,.*_w(atts)?\b", line) is not None
    ):
        stamps[number] = _stamp(fields["timestamp"])
        _add(findings, number, {match[1]: fields[name] for name in fields if (match := POWER.fullmatch(name))})
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was cut")
    zones = {stamp.tzinfo is None for stamp in stamps.values() if stamp}
    if len(zones) > 1:
        findings.note("time stamps with and without zone: those without are left out")
    mixed = len(zones) > 1
    wanted = [stamps[r["line"]] for r in findings.records]
    count_from_first(findings, [None if s is None or (mixed and s.tzinfo is None) else s for s in wanted])
    return findings.reading(COLUMNS, ADVICE)


def _add(findings: Findings, number: int, texts: dict[str, str]) -> None:
    watts = {node: to_number(text) for node, text in texts.items()}
    nodes = {node: power_w for node, power_w in watts.items() if node != TOTAL} or watts
    if any(not power_w >= 0 for power_w in watts.values()):
        findings.leave_out(number, "power that is no number of W")
    elif TOTAL in watts and abs(sum(nodes.values()) - watts[TOTAL]) > 1e-6 * watts[TOTAL]:
        findings.leave_out(number, f"total {watts[TOTAL]:g} W is not the sum of the nodes")
    else:
        findings.records += [sample(number, node, math.nan, power_w) for node, power_w in nodes.items()]


def _stamp(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
