"""Judge a run by the table of its suite, using its settings and observed facts."""

from collections.abc import Mapping
from operator import attrgetter
from typing import cast

from hpcai.config.runs import RunPlan
from hpcai.rules.requirement import Requirement, say
from hpcai.rules.table import Rule, rules_of
from hpcai.rules.verdict import Finding, RunFacts, Verdict


def judge(plan: RunPlan, facts: RunFacts) -> tuple[Verdict, ...]:
    """Return one verdict per level or division of the suite of the run's benchmark.

    Parameters
    ----------
    plan
        All settings of the run.
    facts
        Observed facts; unknown ones are not judged.

    Returns
    -------
    tuple of Verdict
        The strictest level first: hardware, system, free (HPC AI500 V2.0), or closed, open (MLPerf HPC).
    """
    table = rules_of(plan.benchmark.suite)
    verdicts = []
    for level in table.levels:
        found = [(rule, _finding(rule, plan, facts)) for rule in table.rules_for(plan.benchmark.workload, level)]
        broken = [(rule, finding) for rule, finding in found if finding is not None]
        deviations = tuple(finding for rule, finding in broken if rule.effect == "deviation")
        flags = tuple(finding for rule, finding in broken if rule.effect == "flag")
        verdicts.append(
            Verdict(suite=table.suite, level=level, valid=not deviations, deviations=deviations, flags=flags)
        )
    return tuple(verdicts)


def _finding(rule: Rule, plan: RunPlan, facts: RunFacts) -> Finding | None:
    """Return how a run breaks a rule; None if it complies, or the rule does not apply."""
    if not all(_allows(required, value_at(path, plan, facts)) for path, required in rule.when.items()):
        return None
    sentence = rule.declared or _deviation(rule, plan, facts)
    if not sentence:
        return None
    return Finding(rule=rule.id, sentence=sentence, section=rule.section, counted=rule.counted)


def _allows(required: Requirement, value: object) -> bool:
    return value is not None and required.allows(value)


def _deviation(rule: Rule, plan: RunPlan, facts: RunFacts) -> str:
    values = {path: value_at(path, plan, facts) for path in rule.settings}
    wrong = {
        path: value
        for path, value in values.items()
        if not (path.startswith("facts.") and value is None) and not rule.settings[path].allows(value)
    }
    return describe(rule, wrong) if wrong else ""


def describe(rule: Rule, wrong: Mapping[str, object]) -> str:
    """Describe a deviation from a rule: the found value with its path, and the expected one."""
    each = ", ".join(
        f"{path.removeprefix('facts.').removeprefix('plan.')} {say(value)} instead of {rule.settings[path].words}"
        for path, value in wrong.items()
    )
    path, value = next(iter(wrong.items()))
    return rule.deviation.format(found=say(value), required=rule.settings[path].words, each=each)


def value_at(path: str, plan: RunPlan, facts: RunFacts) -> object:
    """Return the setting or fact at a path of the table; `` + `` joins paths whose sum is meant."""
    parts = [_part_at(part, plan, facts) for part in path.split(" + ")]
    return parts[0] if len(parts) == 1 else sum(cast("list[float]", parts))


def _part_at(path: str, plan: RunPlan, facts: RunFacts) -> object:
    root, _, rest = path.partition(".")
    if root == "facts":
        return attrgetter(rest)(facts)
    return attrgetter(rest)(plan) if root == "plan" else attrgetter(path)(plan.benchmark)
