"""Check one log against a rule set: the verdict of ``mlperf_logging.compliance_checker``, with every failure.

The package keeps one message per key, drops it when a later rule file covers the key again, and raises an exception on
some logs, which then do not comply. This check follows it, but continues after such a place to report the rest.
"""

import operator
from collections import deque

from hpcai.mlperf_hpc.compliance.model import Finding, LogVerdict
from hpcai.mlperf_hpc.compliance.rule_files import read_rule_set, start_file
from hpcai.mlperf_hpc.compliance.rule_pass import Asked, RulePass
from hpcai.mlperf_hpc.compliance.sentences import say_value
from hpcai.parsers.mllog import TOKEN, Mllog

MOST_FINDINGS = 1000
"""Findings listed per log; a log that fails line by line would fill tables and memory."""


def check_log(log: Mllog, rule_set: str, *, source: str) -> LogVerdict:
    """Check one log against the rule files of a rule set.

    Parameters
    ----------
    log
        The parsed log.
    rule_set
        Such as "3.0.0".
    source
        Name of the file in the findings.

    Raises
    ------
    ParseError
        If the package lacks the rule set.
    """
    files = read_rule_set(rule_set)
    lines = log.by_key
    kept = _damage(log, source)
    of_keys: dict[str, list[Finding]] = {}
    warnings: list[Finding] = []
    waiting: deque[tuple[Asked, frozenset[str]]] = deque([(Asked(start_file(rule_set), None), frozenset())])
    while waiting:
        asked, before = waiting.popleft()
        rules = files.get(asked.name)
        if rules is None or asked.name in before:
            kept.append(_stop(asked, source, loops=rules is not None))
            continue
        done = RulePass(rules, lines, source)
        done.run()
        for key in rules.keys:  # rules of this file replace those of earlier files for the same key
            of_keys.pop(key, None)
        of_keys.update(done.of_keys)
        kept += done.kept
        warnings += done.warnings
        waiting.extend((one, before | {asked.name}) for one in done.asked)
    warnings += _times(log, source)
    failures = [finding for findings in of_keys.values() for finding in findings] + kept
    found = sorted(failures + warnings, key=lambda finding: finding.line or float("inf"))
    return LogVerdict(source, rule_set, not failures, tuple(_listed(found, source)))


def _listed(found: list[Finding], source: str) -> list[Finding]:
    """Return the findings; beyond the limit, only the first ones and the number of the others."""
    of_lines = [one for one in found if one.line is not None]
    more = of_lines[MOST_FINDINGS:]
    if not more:
        return found
    failed, stops = any(one.failed for one in more), any(one.stops for one in more)
    message = f"{len(more):,} more findings from here on, which are not listed"
    rest = Finding(source, more[0].line, "", "mlp_compliance", message, "failure" if failed else "warning", stops)
    return [*of_lines[:MOST_FINDINGS], rest, *(one for one in found if one.line is None)]


def _damage(log: Mllog, source: str) -> list[Finding]:
    """Report lines that cannot be read, and a log without events."""
    findings = []
    for line in log.broken:
        stops = line.kind == "fields"
        what = "is not an event, the package stops here" if stops else "cannot be read"
        findings.append(Finding(source, line.line, "", "mlp_parser", f"the line {what}: {line.error}", stops=stops))
    if not log.events:
        message = f"the log holds no event, expected lines with `{TOKEN.strip()}`"
        findings.append(Finding(source, None, "", "mlp_compliance", message))
    return findings


def _times(log: Mllog, source: str) -> list[Finding]:
    """Warn of times that go backwards, which the package does not check."""
    times = [event.time_ms for event in log.events]
    if all(map(operator.le, times, times[1:])):
        return []
    late = [after for before, after in zip(log.events, log.events[1:], strict=False) if after.time_ms < before.time_ms]
    if not late:  # NaN is neither before nor after another time
        return []
    found = [f"{len(late)} events are earlier than the one before"]
    starts, stops = log.by_key.get("run_start"), log.by_key.get("run_stop")
    if starts and stops and stops[0].time_ms < starts[0].time_ms:
        found.append(
            f"run_stop is {(starts[0].time_ms - stops[0].time_ms) / 1000:g} s before run_start: no time to train"
        )
    return [Finding(source, late[0].line, "time_ms", "order of time", "; ".join(found), "warning")]


def _stop(asked: Asked, source: str, *, loops: bool) -> Finding:
    """Report a rule file that the package would need but lacks, or would read endlessly."""
    reason = "leads back to itself, the package never ends" if loops else "does not exist, the package stops here"
    line, key = (asked.by.line, asked.by.key) if asked.by else (None, "")
    value = f"{key} {say_value(asked.by.value)} asks for" if asked.by else "the check begins with"
    return Finding(source, line, key, asked.name, f"{value} the rule file {asked.name}, which {reason}", stops=True)
