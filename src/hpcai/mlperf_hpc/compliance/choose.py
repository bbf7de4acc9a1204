"""Choose the rule set of a round from the evidence available, with the reason."""

import datetime
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from hpcai.mlperf_hpc.compliance.model import RULE_SETS
from hpcai.mlperf_hpc.rounds.model import Round
from hpcai.mlperf_hpc.rounds.times import is_time
from hpcai.mlperf_hpc.rounds.tree import Place
from hpcai.parsers.mllog import TOKEN, parse_mllog

ROUNDS = {"0.7": "1.0.0", "1.0": "1.0.0", "2.0": "2.0.0", "3.0": "3.0.0"}
"""Rule set by version of the round; the package has none for v0.7."""
YEARS = {2020: "0.7", 2021: "1.0", 2022: "2.0", 2023: "3.0"}
"""Version of the round by the year of its newest log, because older results may be submitted again."""
NO_RULES = "the package has no rules for v0.7, those of v1.0 are the nearest"
_VERSION = re.compile(r"v?(\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule set, such as "2.0.0", and one sentence with the reason for its choice."""

    rule_set: str
    reason: str


def choose_rule_set(found: Round) -> Choice:
    """Return the rule set that a round was made for.

    The first available of these decides: the round's name (its folder, archive or README), a benchmark that exists in
    only one rule set, the year of the newest log, the tree layout of v0.7. Runs of our own studies use their study's
    rule set.
    """
    runs = [run for submission in found.submissions for run in (*submission.runs, *submission.pruned)]
    benchmarks = {submission.benchmark for submission in found.submissions}
    is_first = found.layout == "flat" and any(submission.system_name for submission in found.submissions)
    return _choose(found.name, benchmarks, [run.logged_ms for run in runs], is_first=is_first)


def foresee_rule_set(name: str, logs: Sequence[tuple[Place, bytes]]) -> Choice:
    """Return the rule set of a round as far as its name, paths and the first lines of its logs determine it."""
    places = [place for place, _ in logs]
    is_first = not any(place.scaling for place in places) and any(place.system for place in places)
    benchmarks = {place.benchmark for place in places}
    return _choose(name, benchmarks, (first_time_ms(content) for _, content in logs), is_first=is_first)


def _choose(name: str, benchmarks: Set[str], logged_ms: Iterable[float | None], *, is_first: bool) -> Choice:
    by_name = choose_by_name(name)
    if by_name is not None:
        return by_name
    if "openfold" in benchmarks:
        return Choice("3.0.0", "only these rules have the benchmark openfold")
    by_date = choose_by_date(max((time_ms for time_ms in logged_ms if time_ms is not None), default=None))
    if by_date is not None:
        return by_date
    if is_first:
        return Choice("1.0.0", f"the tree has no folders strong and weak, as that of v0.7; {NO_RULES}")
    return Choice(RULE_SETS[-1], "nothing tells the round; these are the newest rules")


def first_time_ms(content: bytes) -> float | None:
    """Return the first valid time in a log, parsing no more of it than needed."""
    start = content.find(TOKEN.encode())
    while start >= 0:
        end = content.find(b"\n", start)
        line = content[start:] if end < 0 else content[start:end]
        times = (event.time_ms for event in parse_mllog(line, "").events if is_time(event.time_ms))
        if (found := next(times, None)) is not None:
            return found
        start = content.find(TOKEN.encode(), start + len(line))
    return None


def choose_by_name(name: str) -> Choice | None:
    """Return the rule set for a round's name, such as "v2.0"; None if it names none."""
    version = _VERSION.fullmatch(name.strip().lower())
    if version is None or version[1] not in ROUNDS:
        return None
    return _of_round(version[1], f"the round is named {name}")


def choose_by_date(newest_ms: float | None) -> Choice | None:
    """Return the rule set for the year of the newest log; None without a log that has a time."""
    try:
        year = datetime.datetime.fromtimestamp((newest_ms or 0) / 1000, tz=datetime.UTC).year
    except (ValueError, OverflowError, OSError):
        return None
    if newest_ms is None or year < min(YEARS):
        return None
    version = YEARS[min(year, max(YEARS))]
    if year > max(YEARS):
        return Choice(ROUNDS[version], f"the newest log is of {year}, after the last round; these are the newest rules")
    return _of_round(version, f"the newest log is of {year}, the year of v{version}")


def _of_round(version: str, reason: str) -> Choice:
    return Choice(ROUNDS[version], f"{reason}; {NO_RULES}" if version == "0.7" else reason)
