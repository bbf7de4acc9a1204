"""Which rule set judges a round, found from what is there, and why."""

import datetime
import re
from dataclasses import dataclass

from hpcai.mlperf_hpc.compliance.model import RULE_SETS
from hpcai.mlperf_hpc.rounds.model import Round

ROUNDS = {"0.7": "1.0.0", "1.0": "1.0.0", "2.0": "2.0.0", "3.0": "3.0.0"}
"""Rule set by the version of a round; the package has none for v0.7."""
YEARS = {2020: "0.7", 2021: "1.0", 2022: "2.0", 2023: "3.0"}
"""Version of the round by the year of its newest log: results are submitted again, the newest was made for it."""
NO_RULES = "the package has no rules for v0.7, those of v1.0 are the nearest"
_VERSION = re.compile(r"v?(\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule set, such as "2.0.0", and one sentence why it was chosen."""

    rule_set: str
    reason: str


def choose_rule_set(found: Round) -> Choice:
    """Return the rule set that a round was made for.

    The first of these that speaks decides: the round's name (its folder, archive or README), a benchmark that only one
    rule set has, the year of the newest log, the tree of v0.7. Runs of our own studies come with their study's.
    """
    runs = [run for submission in found.submissions for run in (*submission.runs, *submission.pruned)]
    by_name = choose_by_name(found.name)
    if by_name is not None:
        return by_name
    dates = [run.logged_ms for run in runs if run.logged_ms is not None]
    if "openfold" in {submission.benchmark for submission in found.submissions}:
        return Choice("3.0.0", "only these rules have the benchmark openfold")
    by_date = choose_by_date(max(dates, default=None))
    if by_date is not None:
        return by_date
    if found.layout == "flat" and len({submission.system_name for submission in found.submissions} - {""}) > 0:
        return Choice("1.0.0", f"the tree has no folders strong and weak, as that of v0.7; {NO_RULES}")
    return Choice(RULE_SETS[-1], "nothing tells the round; these are the newest rules")


def choose_by_name(name: str) -> Choice | None:
    """Return the rule set of a round by its name, such as "v2.0"; None if it names none."""
    version = _VERSION.fullmatch(name.strip().lower())
    if version is None or version[1] not in ROUNDS:
        return None
    return _of_round(version[1], f"the round is named {name}")


def choose_by_date(newest_ms: float | None) -> Choice | None:
    """Return the rule set of the year in which the newest log was written; None without a log that tells."""
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
