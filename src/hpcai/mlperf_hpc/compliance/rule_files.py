"""The rule files of the package ``mlperf_logging``, read and compiled once.

The package evaluates the expressions of its own files; so do we, with the same names in scope. Only files of the
installed package are read: a log that names another file cannot make it run.
"""

import importlib.metadata
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import yaml
from mlperf_logging.compliance_checker import mlp_compliance

from hpcai.core.errors import ParseError

_FIELDS = {"NAME", "REQ", "CHECK", "POST", "ATLEAST_ONE_CHECK"}
_REQUIREMENT = re.compile(r"EXACTLY_ONE|AT_LEAST_ONE|AT_LEAST_ONE_OR\(.*\)|")


@dataclass(frozen=True, slots=True)
class Expression:
    """Code of a rule file: source text and compiled form."""

    text: str
    code: CodeType


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rules of a file for one key.

    Attributes
    ----------
    name
        The key.
    requirement
        REQ as in the file: how often the key must occur; blank without a requirement.
    alternatives
        The keys of AT_LEAST_ONE_OR, including this one; empty for other requirements.
    checks
        CHECK: each must hold on every line of the key.
    action
        POST: runs after the checks.
    at_least_one
        ATLEAST_ONE_CHECK: must hold on at least one line of the key.
    once
        Whether only the first line of the key is checked, as for all ``submission_`` keys.
    ordered
        Whether earlier lines matter: the code reads or changes a state, or requests rule files.
    uses_line
        Whether the code reads the whole line (``ll``).
    holds, meets
        All checks, and the check for one line, each as a function of ``v``, which is faster than evaluation. None if
        there are none, or if a function would see other names than an evaluated expression.
    """

    name: str
    requirement: str
    alternatives: frozenset[str]
    checks: tuple[Expression, ...]
    action: Expression | None
    at_least_one: Expression | None
    once: bool
    ordered: bool
    uses_line: bool
    holds: CodeType | None
    meets: CodeType | None


@dataclass(frozen=True)
class RuleFile:
    """One rule file: its initial code, and its rules for each key."""

    name: str
    begin: CodeType | None
    keys: Mapping[str, KeyRule]


def package_version() -> str:
    """Return name and version of the package that provides the rules."""
    return f"mlperf-logging {importlib.metadata.version('mlperf-logging')}"


def start_file(rule_set: str) -> str:
    """Return the name of a check's first rule file."""
    return f"hpc_{rule_set}/common.yaml"


def new_state(rules: RuleFile, enqueue: Callable[[str], None]) -> dict[str, Any]:
    """Return the names visible to the expressions of a rule file, as the package defines them per file and log."""
    kept: dict[str, Any] = {}
    state = {"enqueue_config": enqueue, "s": kept, "is_integer": mlp_compliance.is_integer, "math": math}
    if rules.begin is not None:
        exec(rules.begin, state, {})  # noqa: S102  code of the installed package
    return state


@cache
def read_rule_set(rule_set: str) -> Mapping[str, RuleFile]:
    """Return the rule files of a rule set by their names, such as ``hpc_3.0.0/closed_oc20.yaml``.

    Raises
    ------
    ParseError
        If the package lacks the rule set, or a rule file contains something this library cannot evaluate.
    """
    folder = Path(mlp_compliance.__file__).parent / f"hpc_{rule_set}"
    files = {f"{folder.name}/{path.name}": path for path in sorted(folder.glob("*.yaml"))}
    if not files:
        known = ", ".join(sorted(path.name[4:] for path in folder.parent.glob("hpc_*")))
        raise ParseError(f"{package_version()} has no rule set hpc_{rule_set}, expected one of {known}")
    return {name: _read(path, name) for name, path in files.items()}


def _read(path: Path, name: str) -> RuleFile:
    entries = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader) or []  # noqa: S506  texts only
    begin = None
    keys: dict[str, KeyRule] = {}
    for entry in entries:
        kind = next(iter(entry))
        if kind == "BEGIN":
            begin = compile(entry["BEGIN"]["CODE"].strip(), name, "exec")
        elif kind == "KEY":
            rule = _read_key(entry["KEY"], name)
            keys[rule.name] = rule
        else:
            raise _unknown(name, kind)
    return RuleFile(name, begin, keys)


def _read_key(entry: dict[str, Any], name: str) -> KeyRule:
    requirement = entry.get("REQ", "")
    if not (entry.keys() <= _FIELDS and _REQUIREMENT.fullmatch(requirement)):
        raise _unknown(name, f"{', '.join(entry)} with REQ {requirement}")
    key = entry["NAME"]
    checks = entry.get("CHECK", [])
    texts = checks if isinstance(checks, list) else [checks]
    expressions = tuple(_compile(text, name, "eval") for text in texts)
    action = _compile(entry["POST"], name, "exec") if "POST" in entry else None
    one = _compile(entry["ATLEAST_ONE_CHECK"], name, "eval") if "ATLEAST_ONE_CHECK" in entry else None
    names = {name for code in (*expressions, action, one) if code for name in code.code.co_names}
    ordered = action is not None or "s" in names
    return KeyRule(
        key,
        requirement,
        _alternatives(key, requirement),
        expressions,
        action,
        one,
        "submission_" in key,
        ordered,
        "ll" in names,
        _as_function(expressions),
        _as_function((one,) if one else ()),
    )


def _as_function(expressions: Sequence[Expression]) -> CodeType | None:
    """Compile the conjunction of expressions as a function of the line's content."""
    # Inside a comprehension or lambda, an evaluated expression does not see `v`, but a function would.
    nested = any(isinstance(part, CodeType) for one in expressions for part in one.code.co_consts)
    if not expressions or nested or any("ll" in one.code.co_names for one in expressions):
        return None
    return compile(f"lambda v: {' and '.join(f'({one.text})' for one in expressions)}", "rules", "eval")


def _alternatives(key: str, requirement: str) -> frozenset[str]:
    if "(" not in requirement:
        return frozenset()
    others = requirement.removeprefix("AT_LEAST_ONE_OR(").removesuffix(")").split(",")
    return frozenset({key, *(other.strip() for other in others)})


def _compile(text: str, name: str, mode: str) -> Expression:
    words = text.strip()
    return Expression(words, compile(words, name, mode))


def _unknown(name: str, found: str) -> ParseError:
    return ParseError(
        f"{package_version()}, {name}: found {found}, which this library cannot evaluate; "
        "install the version that requirements.lock names"
    )
