"""Judge a machine's acceptance: compare every node, accelerator, pair and ring with its fleet."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.acceptance import Acceptance
from hpcai.core.messages import Message, join
from hpcai.metrics.statistics.fleet import LEAST_FLEET, FleetTest, Place, place_in_fleet
from hpcai.records.acceptance import Accepted, Finding, Measured, Series, Verdict

ALL = "all"
"""Measure of the rows that sum up a subject."""
LATENCY, BANDWIDTH = "allreduce latency", "allreduce bandwidth"
FEWEST_PAIRS = 2
BEST_PAIR = "{measure}, best pair"
"""Of a node: its best pair is good if the node is, whatever its partners are like."""
LINKS = ("pair", "ring")
"""Kinds of subjects between nodes."""
WORST: tuple[Verdict, ...] = ("broken", "suspicious", "healthy", "not_measured")

TEST_OF_FLEET = Message(
    "acceptance.test_of_fleet",
    "loss over the spread of {n} members, one-sided Student t, p times {tests} tests; suspicious from "
    "{suspicious:.3g}, broken from {broken:.3g}, if p < {p:g}",
)
TEST_OF_FEW = Message(
    "acceptance.test_of_few",
    "loss over an assumed spread of {spread:.3g} and the measured noise, or a larger spread if eight members show it "
    "({n} members: too few to measure a smaller one), one-sided Student t, p times {tests} tests; suspicious from "
    "{suspicious:.3g}, broken from {broken:.3g}, if p < {p:g}",
)
NO_FLEET = Message("acceptance.no_fleet", "completed; nothing to compare it with: which value to expect is unknown")
COMPLETION = Message("acceptance.completion", "whether it completed")
SLOWER = Message("acceptance.slower", "{loss:.1%} below the fleet")
INSIGNIFICANT = Message("acceptance.insignificant", "{loss:.1%} below the fleet, which its noise may explain")
OTHERS_MEASURED = Message("acceptance.others_measured", "not measured here, but on {n} others: {reason}")
FEW_NODES = Message(
    "acceptance.few_nodes",
    "{n} nodes: the spread between healthy ones is assumed ({spread:.3g}), not measured",
)
ONE_NODE = Message("acceptance.one_node", "one node: only completion was tested; which values to expect is unknown")
NOT_ALL_NODES = Message("acceptance.not_all_nodes", "{n} of the {all} nodes of the machine file")
NO_LINK = Message("acceptance.no_link", "no link between the {n} nodes was measured: suspicious at best")
NOT_MADE = Message("acceptance.not_made", "{n:d} of the measurements not made ({reason}): {measures}")
Group = tuple[str, str]


def judge_acceptance(measured: Measured, digest: str, source: str) -> Accepted:
    """Return the verdict on a machine, with a finding for each measurement and a summary of each subject.

    Parameters
    ----------
    measured
        All measurements.
    digest, source
        SHA-256 and path of their file.
    """
    series = [*measured.series, *_best_pairs(measured.series)]
    groups: dict[Group, list[Series]] = {}
    for one in series:
        groups.setdefault((one.kind, one.measure), []).append(one)
    tests = sum(len(own) for own in (_with_values(group) for group in groups.values()) if len(own) > 1)
    judge = _Judge(measured.settings, max(tests, 1), source)
    found = [finding for group in groups.values() for finding in judge.of_group(group)]
    summaries = [*_summaries(found, source)]
    linked = len(measured.hosts) < 2 or any(one.values for one in measured.series if one.kind in LINKS)
    return Accepted(
        machine=measured.machine,
        machine_nodes=measured.machine_nodes,
        hosts=measured.hosts,
        verdict=_overall(summaries, linked=linked),
        reason=join("; ", _limits(measured, groups, linked=linked)),
        started_utc=measured.started_utc,
        ended_utc=measured.ended_utc,
        slurm_job=measured.slurm_job,
        measurements_sha256=digest,
        settings=measured.settings,
        findings=(*summaries, *found),
    )


def unfit_nodes(series: Iterable[Series]) -> set[str]:
    """Return the nodes that failed a measurement of their own, or lack one that most others have.

    Whatever else they would take part in, such as pairs, fails as well, slowly, and tells nothing of their partners.
    """
    groups: dict[Group, list[Series]] = {}
    for one in series:
        if len(one.nodes) == 1 and one.tried:
            groups.setdefault((one.kind, one.measure), []).append(one)
    return {
        one.nodes[0]
        for group in groups.values()
        for one in group
        if not one.values and (one.failed or _most_have(len(_with_values(group)), len(group)))
    }


def _most_have(there: int, asked: int) -> bool:
    """Return whether a subject without a measurement is at fault: most of those that were asked have it."""
    return 2 * there > asked


def findings_table(accepted: Accepted) -> pd.DataFrame:
    """Return the table ``acceptance``: the worst first, and a subject's summary before its measurements."""
    rows = sorted(accepted.findings, key=lambda one: (WORST.index(one.verdict), one.measure != ALL))
    frame = pd.DataFrame([one.model_dump() for one in rows], columns=list(columns_of("acceptance")))
    return frame.astype(dict.fromkeys(columns_of("acceptance", "number"), "float64"))


def _with_values(group: Iterable[Series]) -> list[Series]:
    return [one for one in group if one.values]


class _Judge:
    """The limits of an acceptance, and the number of its tests."""

    def __init__(self, limits: Acceptance, tests: int, source: str) -> None:
        self._limits, self._tests, self._source = limits, tests, source

    def of_group(self, group: Sequence[Series]) -> Iterator[Finding]:
        """Yield a finding for each subject of one measurement."""
        there = _with_values(group)
        said = self._say_test(len(there))
        test = FleetTest(self._tests, self._limits.assumed_spread_ratio)
        values = {one.subject: one.values for one in there}
        in_passes = all(one.in_passes for one in there) and len({len(one.values) for one in there}) == 1
        times = group[0].unit == "s"
        places = place_in_fleet(values, test, lower_is_better=times, in_passes=in_passes) if values else {}
        tried = sum(one.tried for one in group)
        for one in group:
            yield self._of(one, places[one.subject], said) if one.values else self._missing(one, len(there), tried)

    def _of(self, one: Series, place: Place, test: str) -> Finding:
        verdict, reason = self._verdict(place)
        known = place.fleet_n > 1
        return Finding(
            kind=one.kind,
            subject=one.subject,
            measure=one.measure,
            verdict=verdict,
            value=place.value,
            unit=one.unit,
            n=len(one.values),
            fleet_median=place.fleet_median if known else None,
            fleet_n=place.fleet_n,
            loss_ratio=place.loss_ratio if known else None,
            spread_ratio=place.spread_ratio if known else None,
            noise_ratio=place.noise_ratio,
            score=_finite(place.score),
            p_value=_finite(place.p_value),
            test=test,
            reason=reason,
            setting=one.setting,
            method="measured",
            source=self._source,
        )

    def _verdict(self, place: Place) -> tuple[Verdict, str]:
        limits, loss = self._limits, place.loss_ratio
        if place.fleet_n < 2:
            return "healthy", NO_FLEET()
        if loss < limits.suspicious_ratio:
            return "healthy", ""
        if not place.p_value < limits.false_alarm_ratio:
            return "healthy", INSIGNIFICANT(loss=loss)
        return "broken" if loss >= limits.broken_ratio else "suspicious", SLOWER(loss=loss)

    def _say_test(self, n: int) -> str:
        if n < 2:
            return COMPLETION()
        limits = self._limits
        shared = {"tests": self._tests, "suspicious": limits.suspicious_ratio, "broken": limits.broken_ratio}
        facts = {**shared, "n": n, "p": limits.false_alarm_ratio}
        return TEST_OF_FLEET(**facts) if n >= LEAST_FLEET else TEST_OF_FEW(**facts, spread=limits.assumed_spread_ratio)

    def _missing(self, one: Series, there: int, asked: int) -> Finding:
        lost = one.tried and _most_have(there, asked)
        reason = OTHERS_MEASURED(n=there, reason=one.reason) if lost and not one.failed else one.reason
        verdict: Verdict = "broken" if one.failed or lost else "not_measured"
        return _finding(one.kind, one.subject, one.measure, verdict, reason, self._source).model_copy(
            update={"unit": one.unit, "setting": one.setting, "test": COMPLETION(), "fleet_n": there}
        )


def _finding(kind: str, subject: str, measure: str, verdict: Verdict, reason: str, source: str) -> Finding:
    """Return a finding without numbers."""
    numbers = ("value", "fleet_median", "loss_ratio", "spread_ratio", "noise_ratio", "score", "p_value")
    words = {"unit": "", "test": "", "setting": "", "method": "", "n": 0, "fleet_n": 0}
    fields = {"kind": kind, "subject": subject, "measure": measure, "verdict": verdict, "reason": reason}
    return Finding.model_validate({**dict.fromkeys(numbers), **words, **fields, "source": source})


def _summaries(findings: Sequence[Finding], source: str) -> Iterator[Finding]:
    """Yield one finding per subject: the worst of its measurements, and the reasons for it."""
    subjects: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        subjects.setdefault((one.kind, one.subject), []).append(one)
    for (kind, subject), own in subjects.items():
        verdict = min((one.verdict for one in own), key=WORST.index)
        bad = [one for one in own if one.verdict == verdict and verdict in {"broken", "suspicious"}]
        reason = join("; ", (f"{one.measure}: {one.reason}" for one in bad))
        worst = max((one.loss_ratio for one in bad if one.loss_ratio is not None), default=None)
        summary = _finding(kind, subject, ALL, verdict, reason, source)
        yield summary.model_copy(update={"n": len(own), "loss_ratio": worst})


def _overall(summaries: Iterable[Finding], *, linked: bool) -> Literal["healthy", "suspicious", "broken"]:
    """Return the worst verdict; several nodes of which no link was measured are not known to be healthy."""
    verdicts = {one.verdict for one in summaries}
    if "broken" in verdicts or verdicts <= {"not_measured"}:
        return "broken"
    return "suspicious" if "suspicious" in verdicts or not linked else "healthy"


def _best_pairs(series: Iterable[Series]) -> Iterator[Series]:
    """Yield for each node the repetitions of its best pair, by latency and by bandwidth.

    Of a node in a single pair it cannot be told which of both is slow.
    """
    by_node: dict[tuple[str, str], list[Series]] = {}
    for one in series:
        if one.kind == "pair" and one.values:
            for node in one.nodes:
                by_node.setdefault((node, one.measure), []).append(one)
    for (node, measure), own in by_node.items():
        if len(own) < FEWEST_PAIRS:
            continue
        best = min(own, key=_middle) if own[0].unit == "s" else max(own, key=_middle)
        fields = {"kind": "node", "subject": node, "nodes": (node,), "measure": BEST_PAIR.format(measure=measure)}
        yield best.model_copy(update={**fields, "setting": f"{best.subject}, {best.setting}"})


def _middle(one: Series) -> float:
    return sorted(one.values)[len(one.values) // 2]


def _limits(measured: Measured, groups: Mapping[Group, Sequence[Series]], *, linked: bool) -> Iterator[str]:
    """Yield what limits the verdict."""
    n, settings = len(measured.hosts), measured.settings
    if n == 1:
        yield ONE_NODE()
    elif n < LEAST_FLEET:
        yield FEW_NODES(n=n, spread=settings.assumed_spread_ratio)
    if n < measured.machine_nodes:
        yield NOT_ALL_NODES(n=n, all=measured.machine_nodes)
    if not linked:
        yield NO_LINK(n=n)
    yield from _not_made(groups)


def _not_made(groups: Mapping[Group, Sequence[Series]]) -> Iterator[str]:
    """Yield by reason what was measured on no subject, or not begun on some; what failed is a verdict instead."""
    missing: dict[str, list[str]] = {}
    for (kind, measure), own in groups.items():
        there = bool(_with_values(own))
        without = [one for one in own if not one.values and not one.failed and not (there and one.tried)]
        if without:
            missing.setdefault(without[0].reason, []).append(f"{kind} ({measure}{', in part' if there else ''})")
    for reason, measures in missing.items():
        yield NOT_MADE(n=len(measures), reason=reason, measures=", ".join(measures))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def say_accepted(accepted: Accepted) -> str:
    """Return the verdict with the reasons for it, for a terminal."""
    summaries = [one for one in accepted.findings if one.measure == ALL]
    lines = [f"{accepted.machine}: {accepted.verdict}, accepted {accepted.ended_utc}"]
    lines += [f"  {accepted.reason}"] if accepted.reason else []
    for verdict in WORST:
        own = [one for one in summaries if one.verdict == verdict]
        kinds: Mapping[str, int] = {kind: sum(one.kind == kind for one in own) for kind in {one.kind for one in own}}
        lines.append(
            f"  {verdict}: {', '.join(f'{count} of kind {kind}' for kind, count in sorted(kinds.items())) or 0}"
        )
        lines += [f"    {one.kind} {one.subject}: {one.reason}" for one in own if one.reason]
    return "\n".join(lines)
