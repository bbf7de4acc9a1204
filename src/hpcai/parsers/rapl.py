"""RAPL energy counters from our own sampler: ``monotonic_s,domain,energy_uj,max_energy_range_uj``.

Linux powercap, Documentation/power/powercap: energy_uj counts up to max_energy_range_uj, then restarts at 0.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mode
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_count, to_number
from hpcai.parsers.power_samples import COLUMNS, keep_order, keep_plausible_devices, rows_of, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

LARGE_STEP = Message("rapl.large_step", "{domain}: a step of the counter beyond {largest_power_w:g} W")
LARGE_GAP = Message("rapl.large_gap", "{domain}: a gap of {gap_s:.3g} s may hide a wrap of the counter")
NO_MEMORY = Message("rapl.no_memory", "no domain dram: the memory is not included")

TOOL = "samples of RAPL"
HEADER = "monotonic_s,domain,energy_uj,max_energy_range_uj"
ADVICE = f"sample again: the first line is `{HEADER}`"
LARGEST_POWER_W = 2000.0
"""Maximum power of a processor domain [W]; a larger step of the counter is damage, not a wrap."""
PARTS = re.compile(r"(?:.*[/:])?(?:core|uncore|psys)(?:-?\d+)?")
"""Domains inside a package (core, uncore) or around all (psys); adding them would count energy twice."""
MEMORY = re.compile(r"(?:.*[/:])?dram(?:-[\d:]+)?")
"""Domains of the memory beside a package, whose counter does not include it."""


def read_rapl(path: Path, largest_power_w: float = LARGEST_POWER_W) -> Reading:
    """Read samples of RAPL.

    Parameters
    ----------
    path
        CSV of the sampler.
    largest_power_w
        Largest believable power of one domain [W].

    Returns
    -------
    Reading
        The common power columns. ``energy_j`` continues over wraps, from 0 at the first sample of each domain.
        ``overlaps``: True for domains contained in another domain's energy.

    Raises
    ------
    ParseError
        If there is no sample.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    for number, fields in rows_of(findings, lines, lambda line: line.strip() == HEADER):
        time_s, domain = to_number(fields["monotonic_s"]), fields["domain"]
        counter, largest = to_count(fields["energy_uj"]), to_count(fields["max_energy_range_uj"])
        if math.isnan(time_s) or not domain or counter is None or not largest or counter > largest:
            findings.leave_out(number, "fields that are not numbers, or a counter beyond its range")
        else:
            row = sample(number, domain, time_s) | {"counter": counter, "largest": largest}
            findings.records.append(row | {"overlaps": PARTS.fullmatch(domain) is not None})
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    keep_plausible_devices(findings)
    keep_order(findings)
    domains = dict.fromkeys(record["device"] for record in findings.records)
    for domain in domains:
        _count_on(findings, domain, largest_power_w)
    if domains and not any(map(MEMORY.fullmatch, domains)):
        findings.note(NO_MEMORY())
    return findings.reading((*COLUMNS, "overlaps"), ADVICE)


def unwrap(counters: Sequence[int], largest: int) -> list[int]:
    """Return the total count since the first value of a counter that restarts at 0 after ``largest``.

    More than one wrap between two values goes undetected.
    """
    total, sums = 0, [0] * len(counters)
    for place in range(1, len(counters)):
        total += _step(counters[place - 1], counters[place], largest)
        sums[place] = total
    return sums


def _step(before: int, now: int, largest: int) -> int:
    """Return the count of one step; the counter's true modulus is one unit (some 10 uJ) above its range."""
    return now - before if now >= before else now - before + largest


def _count_on(findings: Findings, domain: str, largest_power_w: float) -> None:
    own = [record for record in findings.records if record["device"] == domain]
    usual = mode(record["largest"] for record in own)
    same = [record for record in own if record["largest"] == usual]
    believed = [record for place, record in enumerate(same) if not _is_spike(same, place, largest_power_w)]
    lines = {record["line"] for record in believed}
    good = [record["device"] != domain or record["line"] in lines for record in findings.records]
    findings.keep(good, LARGE_STEP(domain=domain, largest_power_w=largest_power_w))
    sums = unwrap([record["counter"] for record in believed], usual)
    for record, energy_uj in zip(believed, sums, strict=True):
        record["energy_j"] = energy_uj * 1e-6
    times = [record["time_s"] for record in believed]
    gap_s = max((later - earlier for earlier, later in pairwise(times)), default=0.0)
    if any(not _is_believable(earlier, later, largest_power_w) for earlier, later in pairwise(believed)):
        for record in believed:
            record["energy_j"] = math.nan
        findings.note(f"{domain}: the counter steps beyond {largest_power_w:g} W, no energy")
    elif gap_s * largest_power_w > usual * 1e-6:
        findings.note(LARGE_GAP(domain=domain, gap_s=gap_s))


def _is_believable(earlier: dict[str, Any], later: dict[str, Any], largest_power_w: float) -> bool:
    energy_j = _step(earlier["counter"], later["counter"], later["largest"]) * 1e-6
    return bool(energy_j <= largest_power_w * (later["time_s"] - earlier["time_s"]) + 1.0)


def _is_spike(samples: list[dict[str, Any]], place: int, largest_power_w: float) -> bool:
    """Detect a sample that does not fit between its neighbours, which fit each other."""
    before, after = samples[max(place - 2, 0) : place], samples[place + 1 : place + 3]
    from_before = not before or _is_believable(before[-1], samples[place], largest_power_w)
    to_after = not after or _is_believable(samples[place], after[0], largest_power_w)
    if before and after:
        return not from_before and not to_after and _is_believable(before[-1], after[0], largest_power_w)
    others = before or after
    fit = len(others) == 2 and _is_believable(others[0], others[1], largest_power_w)
    return fit and not (from_before and to_after)


READER = Reader("rapl", "own samples of RAPL", read_rapl)
