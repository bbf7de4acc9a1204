"""A round with the verdicts of its logs, read and parsed once."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.compliance.choose import Choice, choose_by_name, choose_rule_set, foresee_rule_set
from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import RULE_SETS, LogVerdict
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.model import Round
from hpcai.mlperf_hpc.rounds.reading import Logs, Look, visit_logs
from hpcai.mlperf_hpc.rounds.tree import name_of_round
from hpcai.parsers.mllog import Mllog

T = TypeVar("T")


@dataclass(frozen=True)
class CheckedRound:
    """A round, its rule set, and the verdict of each log by source."""

    round: Round
    choice: Choice
    verdicts: Mapping[str, LogVerdict]

    @property
    def complying(self) -> frozenset[str]:
        """Sources of the logs that comply."""
        return frozenset(source for source, verdict in self.verdicts.items() if verdict.complies)


def read_checked_round(source: Path, *, name: str | None = None, rule_set: str | None = None) -> CheckedRound:
    """Read a round and check all its logs; see :func:`check_round`."""
    return check_round(SourceIndex(source), lambda _path, _log: None, name=name, rule_set=rule_set)[0]


def check_round(
    index: SourceIndex, look: Look[T], *, name: str | None = None, rule_set: str | None = None
) -> tuple[CheckedRound, dict[str, T]]:
    """Read the logs of a source, check each, and pass them to a callback; the source is read once.

    Checking needs the rule set. If neither the caller nor the source's name determines it, the logs are held until all
    are read; then the name, the README and the beginnings of all logs decide. Each log is parsed once, except in a
    round whose logs contradict its folders: those logs are parsed again.

    Parameters
    ----------
    index
        Index of the source, whose logs were not read yet.
    look
        Called with path and parsed log (:func:`hpcai.mlperf_hpc.rounds.reading.visit_logs`); its results are returned
        by the paths of the logs.
    name
        Name of the round; defaults to the source's own name.
    rule_set
        Such as "3.0.0", used as it is; found automatically by default (:func:`choose_rule_set`).

    Raises
    ------
    ConfigError
        If the rule set does not exist.
    ParseError
        If the source cannot be read or holds no log.
    """
    asked = None if rule_set is None else Choice(known_rule_set(rule_set), "it was asked for")
    foreseen = asked or choose_by_name(name or name_of_round(index.source, (), ""))
    if foreseen is not None:
        found, seen = _check(index, index.logs(), look, name, foreseen)
        return _checked(found, asked or choose_rule_set(found), seen)
    logs = list(index.logs())
    tops = (place.top for place, _ in logs)
    foreseen = foresee_rule_set(name or name_of_round(index.source, tops, index.readme), logs)
    found, seen = _check(index, logs, look, name, foreseen)
    choice = choose_rule_set(found)
    if choice.rule_set != foreseen.rule_set:
        found, seen = _check(index, logs, look, name, choice)
    return _checked(found, choice, seen)


def known_rule_set(name: str) -> str:
    """Return a rule set such as "3.0.0", also given as "3.0" or "hpc_3.0.0".

    Raises
    ------
    ConfigError
        If the rule set does not exist.
    """
    words = name.removeprefix("hpc_")
    for rule_set in RULE_SETS:
        if words in (rule_set, rule_set.removesuffix(".0")):
            return rule_set
    raise ConfigError(f"rule set: found {name}, expected one of {', '.join(RULE_SETS)}")


def _check(
    index: SourceIndex, logs: Logs, look: Look[T], name: str | None, choice: Choice
) -> tuple[Round, dict[str, tuple[LogVerdict, T]]]:
    def check(path: str, log: Mllog) -> tuple[LogVerdict, T]:
        return check_log(log, choice.rule_set, source=path), look(path, log)

    with _without_collector():
        return visit_logs(index, logs, check, name=name)


def _checked(found: Round, choice: Choice, seen: dict[str, tuple[LogVerdict, T]]) -> tuple[CheckedRound, dict[str, T]]:
    verdicts = {path: verdict for path, (verdict, _) in seen.items()}
    return CheckedRound(found, choice, verdicts), {path: other for path, (_, other) in seen.items()}


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cycle collector: events of logs have no cycles, and the search takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
