"""Power recorded by our own sampler through NVML or Slurm: ``monotonic_s,index,power_mw[,energy_mj]``.

If the run was on other nodes than the sampler, the first column is ``wall_s``: no two nodes share a monotonic clock.
"""

import math
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_count, to_number
from hpcai.parsers.power_samples import COLUMNS, explain_missing, keep_order, keep_plausible_devices, rows_of, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

NO_NUMBERS = Message("nvml_samples.no_numbers", "fields that are not numbers")

TOOL = "samples of power"
MONOTONIC, WALL = "monotonic_s", "wall_s"
"""Clocks of the time stamps, by their column; the wall clock's stamps are seconds since 1970."""
HEADER = f"{MONOTONIC},index,power_mw"
HEADERS = (HEADER, f"{WALL},index,power_mw")
ADVICE = f"sample again: the first line is `{HEADER}`"


def read_nvml_samples(path: Path) -> Reading:
    """Read samples: time [s], GPU or node index, power [mW] and, if given, the energy counter [mJ].

    An empty field is a value that the device does not report. The fact ``clock`` is `MONOTONIC` or `WALL`.

    Raises
    ------
    ParseError
        If there is no sample.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    for number, fields in rows_of(findings, lines, lambda line: line.startswith(HEADERS)):
        clock = WALL if WALL in fields else MONOTONIC
        findings.facts["clock"] = clock
        time_s, index = to_number(fields[clock]), to_count(fields["index"])
        texts = (fields["power_mw"], fields.get("energy_mj", ""))
        power_w, energy_j = (to_number(text) * 1e-3 for text in texts)
        damaged = any(text and math.isnan(to_number(text)) for text in texts)
        if math.isnan(time_s) or index is None or damaged or power_w < 0 or energy_j < 0:
            findings.leave_out(number, NO_NUMBERS())
        else:
            findings.records.append(sample(number, str(index), time_s, power_w, energy_j))
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    keep_plausible_devices(findings)
    keep_order(findings)
    explain_missing(findings)
    return findings.reading(COLUMNS, ADVICE)


READER = Reader("nvml", "own samples of NVML", read_nvml_samples)
