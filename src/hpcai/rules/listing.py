"""The tables of rules, and the possible validity of a study, as text."""

import textwrap
from collections.abc import Iterator

from hpcai.config.plans import Campaign
from hpcai.config.runs import RunRow
from hpcai.core.messages import Message
from hpcai.core.text import say_name
from hpcai.rules.judge import judge
from hpcai.rules.table import SUITES, Rule, SuiteRules, Topic, rules_of
from hpcai.rules.verdict import Finding, RunFacts, Verdict

WIDTH = 120
JUDGED_LATER = Message(
    "listing.judged_later",
    "Judged only after a run has ended: {facts}. Rules that cannot be checked from a record are not judged.",
)
VFLOPS = Message("listing.vflops", "VFLOPS: FLOPS x (quality / target)^n with n: {exponents}")
NO_VFLOPS = Message("listing.no_vflops", "VFLOPS: not defined by this suite")
NEVER_KEPT = Message("listing.never_kept", "never met here: {declared}")


def list_rules() -> str:
    """Return all rules of all suites: topics with their freedom at each level, then the rules of each topic."""
    return "\n".join(line for suite in SUITES for line in _suite(rules_of(suite)))


def list_verdicts(campaign: Campaign) -> str:
    """Return what each row of a run table can be valid for, judged by its settings before any run.

    Rows with equal verdicts are grouped.
    """
    judged: dict[tuple[str, ...], list[str]] = {}
    for row in campaign.rows:
        judged.setdefault(tuple(_row(campaign, row)), []).append(_name(campaign, row))
    lines = [line for judgement, names in judged.items() for line in (*_filled(", ".join(names)), *judgement, "")]
    waiting = sorted({path for row in campaign.rows for path in _unknown(campaign, row)})
    note = JUDGED_LATER(facts=", ".join(waiting))
    return "\n".join([*lines, *_filled(note)])


def _suite(table: SuiteRules) -> Iterator[str]:
    yield f"{table.title}: {' > '.join(table.levels.values())}"
    yield from _filled(table.edition, "  ")
    results = table.results
    runs = ", ".join(f"{workload} {count}" for workload, count in results.runs.items())
    yield from _filled(f"{results.word}s of a result: {runs}; {results.score} ({results.section})", "  ")
    exponents = ", ".join(f"{workload} {exponent}" for workload, exponent in results.exponents.items())
    yield from _filled(VFLOPS(exponents=exponents) if exponents else NO_VFLOPS(), "  ")
    for name, topic in table.topics.items():
        yield ""
        yield from _topic(topic)
        for rule in table.rules:
            if rule.topic == name:
                yield from _rule(rule)
    yield ""


def _topic(topic: Topic) -> Iterator[str]:
    freedom = ", ".join(f"{level} {how}" for level, how in topic.levels.items())
    yield f"  {topic.title} ({freedom})"
    yield from _filled(f"{topic.sentence} [{topic.section}]", "    ")


def _rule(rule: Rule) -> Iterator[str]:
    whom = f"; only {', '.join(rule.workloads)}" if rule.workloads else ""
    yield f"    {rule.id} ({', '.join(rule.binds)}{whom})"
    yield from _filled(f"{rule.sentence} [{rule.section}]", "      ")
    for words, requirements in (("where", rule.when), ("looks at", rule.settings)):
        for path, required in requirements.items():
            yield f"      {words} {path}: {required.words}"
    if rule.declared:
        yield from _filled(NEVER_KEPT(declared=rule.declared), "      ")
    elif not rule.settings:
        yield "      stated only: cannot be checked from a record"


def _name(campaign: Campaign, row: RunRow) -> str:
    """Return the name of a row, and whether its runs suffice for a result."""
    benchmark = campaign.benchmarks[row.benchmark]
    results = rules_of(benchmark.suite).results
    runs = results.runs_of(benchmark.workload)
    few = f"too few {results.word}s, " if row.repeats < runs else ""
    return f"{row.benchmark}/{row.variant}/{row.scale} ({few}{row.repeats} of {runs})"


def _row(campaign: Campaign, row: RunRow) -> Iterator[str]:
    plan = campaign.plan(row, 1)
    table = rules_of(plan.benchmark.suite)
    yield f"  {table.title}"
    for verdict in judge(plan, RunFacts.before(plan)):
        yield from _verdict(table, verdict)


def _verdict(table: SuiteRules, verdict: Verdict) -> Iterator[str]:
    yield f"  {table.levels[verdict.level]}: {'nothing speaks against it' if verdict.valid else 'not valid'}"
    for finding in verdict.deviations:
        yield from _finding(finding)
    for finding in verdict.flags:
        yield from _finding(finding, "permitted, must be disclosed: ")


def _finding(finding: Finding, before: str = "") -> Iterator[str]:
    yield from _filled(f"- {before}{finding.sentence} [{finding.rule}: {finding.section}]", "    ")


def _unknown(campaign: Campaign, row: RunRow) -> Iterator[str]:
    plan = campaign.plan(row, 1)
    known = RunFacts.before(plan).model_dump(exclude_none=True)
    for rule in rules_of(plan.benchmark.suite).rules:
        for path in rule.settings:
            name = path.removeprefix("facts.")
            if name != path and name not in known:
                yield say_name(name)


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
