"""Apply one rule file to the lines of one log, like ``ComplianceChecker.configured_checks`` of the package."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from mlperf_logging.compliance_checker.mlp_parser.ruleset_100 import LogLine

from hpcai.mlperf_hpc.compliance.model import Finding, Severity
from hpcai.mlperf_hpc.compliance.rule_files import Expression, KeyRule, RuleFile, new_state
from hpcai.mlperf_hpc.compliance.sentences import say_check, say_value
from hpcai.parsers.mllog import TOKEN, MllogEvent

Lines = Mapping[str, Sequence[MllogEvent]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A further rule file to apply, and the line that requests it; None for the first file."""

    name: str
    by: MllogEvent | None


class RulePass:
    """One rule file and one log.

    Attributes
    ----------
    of_keys
        Failures by key, which a later rule file can withdraw.
    kept
        Failures that are final.
    warnings
        Findings that do not affect the verdict.
    asked
        Further rule files, in the order of the lines that request them.
    """

    def __init__(self, rules: RuleFile, lines: Lines, source: str) -> None:
        self.of_keys: dict[str, list[Finding]] = {}
        self.kept: list[Finding] = []
        self.warnings: list[Finding] = []
        self.asked: list[Asked] = []
        self._rules = rules
        self._lines = lines
        self._source = source
        self._names: list[str] = []
        self._state = new_state(rules, self._names.append)
        self._met: dict[str, bool] = {}
        self._functions: dict[CodeType, Callable[[Mapping[str, Any]], object]] = {}

    def run(self) -> None:
        """Check the lines of all keys, and count them.

        The order of lines matters only for keys whose code uses a state or requests other files.
        """
        ordered: list[MllogEvent] = []
        for rule in self._rules.keys.values():
            found = self._lines.get(rule.name, ())
            if rule.ordered:
                ordered += found[:1] if rule.once else found
                continue
            for event in self._failing(rule, found[:1] if rule.once else found):
                self._look_at(rule, event)
        ordered.sort(key=_number)
        for event in ordered:
            self._look_at(self._rules.keys[event.key], event)
        self._check_met()
        self._check_occurrences()

    def _failing(self, rule: KeyRule, found: Sequence[MllogEvent]) -> Sequence[MllogEvent]:
        """Return the lines of a rule without action that need a closer look, skipping those where all checks hold."""
        if rule.holds is None or rule.at_least_one is not None:
            return found
        holds = self._function(rule.holds)
        failing = []
        for event in found:
            try:
                if holds({"value": event.value, "metadata": event.metadata}):
                    continue
            except Exception:  # noqa: S110  evaluated again later, which reports the error
                pass
            failing.append(event)
        return failing

    def _look_at(self, rule: KeyRule, event: MllogEvent) -> None:
        """Evaluate the rules for one line."""
        names: dict[str, Any] = {"v": {"value": event.value, "metadata": event.metadata}}
        if rule.uses_line:
            names["ll"] = LogLine(event.text, event.time_ms, event.key, names["v"], event.number)
        for check in () if self._call(rule.holds, names["v"]) else rule.checks:
            try:
                held = eval(check.code, self._state, names)  # noqa: S307
            except Exception as error:  # the package treats any exception as a failed check
                self._fail(event.line, rule.name, check.text, f"{say_check(check.text, event)} ({_describe(error)})")
            else:
                if not held:
                    self._fail(event.line, rule.name, check.text, say_check(check.text, event))
        if rule.action is not None:
            self._act(rule.action, rule, event, names)
        if rule.at_least_one is not None:
            self._meet(rule.at_least_one, rule, event, names)

    def _call(self, code: CodeType | None, value: Mapping[str, Any]) -> bool:
        """Return whether all expressions of a function hold; if not, they are evaluated one by one."""
        if code is None:
            return False
        try:
            return bool(self._function(code)(value))
        except Exception:
            return False

    def _function(self, code: CodeType) -> Callable[[Mapping[str, Any]], object]:
        """Return a compiled function bound to this pass's state; created once."""
        function = self._functions.get(code)
        if function is None:
            function = self._functions[code] = eval(code, self._state)  # noqa: S307
        return function

    def _act(self, action: Expression, rule: KeyRule, event: MllogEvent, names: dict[str, Any]) -> None:
        """Run a rule's action after its checks, and queue the rule files that it requires."""
        try:
            exec(action.code, self._state, names)  # noqa: S102
        except Exception as error:
            message = f"{rule.name} {say_value(event.value)}: `{action.text}` fails ({_describe(error)})"
            self._fail(event.line, rule.name, action.text, message)
        self.asked += [Asked(name, event) for name in self._names]
        self._names.clear()

    def _meet(self, check: Expression, rule: KeyRule, event: MllogEvent, names: dict[str, Any]) -> None:
        """Evaluate the check that must hold on one line of the key; the package stops where it cannot decide."""
        try:
            if rule.meets is None:
                held = bool(eval(check.code, self._state, names))  # noqa: S307
            else:
                held = bool(self._function(rule.meets)(names["v"]))
        except Exception as error:
            message = f"{say_check(check.text, event)} ({_describe(error)}); the package stops here"
            self.kept.append(replace(self._finding(event.line, rule.name, check.text, message), stops=True))
            held = True
        self._met[rule.name] = held or self._met.get(rule.name, False)

    def _check_met(self) -> None:
        for key, held in self._met.items():
            check = self._rules.keys[key].at_least_one
            if check is not None and not held:
                message = f"no line of {key} fulfils `{check.text}`: the target was not reached"
                self.kept.append(self._finding(None, key, f"ATLEAST_ONE_CHECK {check.text}", message))

    def _check_occurrences(self) -> None:
        """Count how often each key occurs."""
        lacking: set[frozenset[str]] = set()
        for rule in self._rules.keys.values():
            found = self._lines.get(rule.name, ())
            if rule.requirement == "EXACTLY_ONE" and len(found) > 1:
                self._repeated(rule, found)
            elif rule.requirement in ("EXACTLY_ONE", "AT_LEAST_ONE") and not found:
                wanted = "exactly one" if rule.requirement == "EXACTLY_ONE" else "at least one"
                message = f"found no line of {rule.name}, expected {wanted}"
                self._fail(None, rule.name, f"REQ {rule.requirement}", message)
            elif rule.alternatives and not any(self._lines.get(key) for key in rule.alternatives):
                lacking.add(rule.alternatives)
        for keys in sorted(lacking, key=sorted):
            words = " or ".join(sorted(keys))
            message = f"found no line of {words}, expected at least one"
            self.kept.append(self._finding(None, words, f"REQ AT_LEAST_ONE_OR({words})", message))

    def _repeated(self, rule: KeyRule, found: Sequence[MllogEvent]) -> None:
        """Report a key that occurs more than once; equal values only cause a warning."""
        same = _all_same(found)
        places = ", ".join(str(event.line) for event in found[:4]) + (", …" if len(found) > 4 else "")
        values = "equal" if same else "different"
        message = f"found {len(found)} lines of {rule.name} with {values} values (lines {places}), expected exactly one"
        if same:
            self.warnings.append(self._finding(found[1].line, rule.name, "REQ EXACTLY_ONE", message, "warning"))
        else:
            self._fail(found[1].line, rule.name, "REQ EXACTLY_ONE", message)

    def _fail(self, line: int | None, key: str, words: str, message: str) -> None:
        self.of_keys.setdefault(key, []).append(self._finding(line, key, words, message))

    def _finding(self, line: int | None, key: str, words: str, message: str, severity: Severity = "failure") -> Finding:
        """Return a finding that names rule file, key and expression."""
        return Finding(self._source, line, key, f"{self._rules.name}: {key}: {words}", message, severity)


def _number(event: MllogEvent) -> int:
    return event.number


def _all_same(found: Iterable[MllogEvent]) -> bool:
    """Return whether all lines have the same value, as parsed by the package (where every NaN is the same object)."""
    values = [event.value for event in found]
    if values.count(values[0]) == len(values):
        return True
    if "nan" not in repr(values[0]):
        return False
    values = [json.loads(event.text[len(TOKEN) :])["value"] for event in found]
    return values.count(values[0]) == len(values)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
