"""A round together with the verdicts of its logs, read and parsed once."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.compliance.choose import Choice, choose_by_date, choose_by_name, choose_rule_set
from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import RULE_SETS, LogVerdict
from hpcai.mlperf_hpc.rounds.model import Round
from hpcai.mlperf_hpc.rounds.reading import Look, visit_round
from hpcai.mlperf_hpc.rounds.tree import name_of_round
from hpcai.parsers.mllog import Mllog

T = TypeVar("T")


@dataclass(frozen=True)
class CheckedRound:
    """A round, the rule set that judges it, and the verdict of each log by its source."""

    round: Round
    choice: Choice
    verdicts: Mapping[str, LogVerdict]

    @property
    def complying(self) -> frozenset[str]:
        """Sources of the logs that comply."""
        return frozenset(source for source, verdict in self.verdicts.items() if verdict.complies)


def read_checked_round(source: Path, *, name: str | None = None, rule_set: str | None = None) -> CheckedRound:
    """Read a round and check all its logs; see :func:`visit_checked_round`."""
    return visit_checked_round(source, lambda _path, _log: None, name=name, rule_set=rule_set)[0]


def visit_checked_round(
    source: Path, look: Look[T], *, name: str | None = None, rule_set: str | None = None
) -> tuple[CheckedRound, dict[str, T]]:
    """Read a round, check all its logs, and let others look at them.

    The rule set is foreseen by the name of the source or the first log, so that each log is parsed once; only where
    the whole round tells another one, the source is read again.

    Parameters
    ----------
    source
        What :func:`hpcai.mlperf_hpc.rounds.reading.visit_round` reads.
    look
        As there; what it returns comes back by the paths of the logs.
    name
        Name of the round; by default what the source says.
    rule_set
        Such as "3.0.0", and then it is the one; by default it is found (:func:`choose_rule_set`).

    Raises
    ------
    ConfigError
        If there is no such rule set.
    ParseError
        If the source cannot be read or holds no log.
    """
    if rule_set is not None:
        asked = Choice(known_rule_set(rule_set), "it was asked for")
        found, verdicts, seen = _read(source, name, asked, look)
        return CheckedRound(found, asked, verdicts), seen
    foreseen = choose_by_name(name or name_of_round(source, (), ""))
    found, verdicts, seen = _read(source, name, foreseen, look)
    choice = choose_rule_set(found)
    if any(verdict.rule_set != choice.rule_set for verdict in verdicts.values()):
        found, verdicts, seen = _read(source, name, choice, look)
    return CheckedRound(found, choice, verdicts), seen


def known_rule_set(name: str) -> str:
    """Return a rule set such as "3.0.0", also given as "3.0" or "hpc_3.0.0".

    Raises
    ------
    ConfigError
        If there is no such rule set.
    """
    words = name.removeprefix("hpc_")
    for rule_set in RULE_SETS:
        if words in (rule_set, rule_set.removesuffix(".0")):
            return rule_set
    raise ConfigError(f"rule set: found {name}, expected one of {', '.join(RULE_SETS)}")


def _read(
    source: Path, name: str | None, choice: Choice | None, look: Look[T]
) -> tuple[Round, dict[str, LogVerdict], dict[str, T]]:
    """Read a source and check its logs by one rule set, without a choice by that of the first log's date."""
    used = choice

    def check(path: str, log: Mllog) -> tuple[LogVerdict, T]:
        nonlocal used
        if used is None:
            used = choose_by_date(log.events[0].time_ms if log.events else None)
        return check_log(log, used.rule_set if used else RULE_SETS[-1], source=path), look(path, log)

    with _without_collector():
        found, seen = visit_round(source, check, name=name)
    verdicts = {path: verdict for path, (verdict, _) in seen.items()}
    return found, verdicts, {path: other for path, (_, other) in seen.items()}


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for cycles among the events of logs, which have none; it takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
