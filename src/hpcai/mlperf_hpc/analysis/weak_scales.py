"""Scales of weak scaling: the whole system T, and one instance S from its logs, if plausible."""

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Span, Submission
from hpcai.mlperf_hpc.rounds.systems import whole_number

NO_FIT = Message(
    "weak_scales.no_fit",
    "{instances} instances ran at the same time, {instances} x {value:g} do not fit into T = {whole:g}",
)
OTHER_SCALE = Message("weak_scales.other_scale", "S = {own:g} is {source}, {names} is {value}{why}")
IMPOSSIBLE = Message("weak_scales.impossible", ", which cannot be: {why}")
LARGER_THAN_WHOLE = Message("weak_scales.larger_than_whole", "T is {whole:g}")
SHARED_NODES = Message(
    "weak_scales.shared_nodes",
    "{instances} instances ran at the same time on T = {whole:g} nodes, S = {own:g} each: they shared nodes, "
    "which T and S count as whole ones, or their logs tell more nodes than they had",
)

RANKS = "number_of_ranks"
LOGGED = "number_of_nodes x accelerators_per_node"
DERIVED = "T / M'"
"""Sources of S: the logs, or the share of T left to each concurrent instance."""


@dataclass(frozen=True)
class WeakScales:
    """T and S of one weak-scaling result.

    Attributes
    ----------
    whole
        T: accelerators of the system file, or its nodes where it has no accelerators; NaN without one.
    instance
        S: accelerators (nodes) of one instance; NaN if the logs give none, or no plausible one.
    unit
        Unit of both: "accelerator" or "node"; blank if unknown.
    source
        Source of S: :data:`RANKS`, :data:`LOGGED` or :data:`DERIVED`; blank without S.
    by_ranks, by_nodes
        All different S from :data:`RANKS` and :data:`LOGGED` in the logs that count, plausible or not.
    peak
        Largest number of concurrent instances, including those that do not count.
    """

    whole: float
    instance: float
    unit: str
    source: str
    by_ranks: tuple[int, ...]
    by_nodes: tuple[int, ...]
    peak: int

    @property
    def logged(self) -> float:
        """Scale from the logged nodes, plausible or not; NaN if no log has them, or they differ."""
        return float(self.by_nodes[0]) if len(self.by_nodes) == 1 else math.nan

    def of_run(self, run: LoggedRun) -> tuple[int | None, int | None]:
        """Return nodes and accelerators of one instance; None for what its logs lack or what is implausible."""
        nodes, per_node = _count(run, "number_of_nodes"), _count(run, "accelerators_per_node")
        told = instance_scale(run)
        own = self.instance
        if math.isnan(own) and told is not None and not _misfit(told, self.whole, self.peak, self.unit):
            own = float(told)
        if told is None and math.isnan(own):
            return nodes, None
        if math.isnan(own):
            return None, None
        if self.unit == "node":
            return int(own), 0
        fits = per_node is not None and per_node > 0 and own % per_node == 0
        return int(own / per_node) if per_node and fits else None, int(own)

    def reasons(self, instances: int) -> Iterator[str]:
        """Yield remarks on T and S; `instances` is M."""
        whole, own = self.whole, self.instance
        if math.isnan(whole):
            yield "T unknown: no system file with the number of nodes and accelerators"
        if not (self.by_ranks or self.by_nodes):
            yield f"S unknown: no log that counts has {RANKS}, or number_of_nodes and accelerators_per_node"
        if len(self.by_ranks) > 1:
            yield f"{RANKS} differs between the instances: {', '.join(map(str, self.by_ranks))}"
        for value, names in _by_value(self.by_ranks, self.by_nodes).items():
            misfit = _misfit(value, whole, self.peak, self.unit)
            if self.source and value != own:
                why = IMPOSSIBLE(why=misfit) if misfit else ""
                yield OTHER_SCALE(own=own, source=self.source, names=names, value=value, why=why)
            elif misfit and value > whole:
                yield f"S <= T does not hold: S = {value} in the logs, T = {whole:g} in the system file"
            elif misfit:
                yield f"not possible: {misfit}"
        if own * instances < whole:
            yield f"T <= M x S does not hold: T = {whole:g} in the system file, M x S = {instances} x {own:g}"
        if self.unit == "node" and self.peak * own > whole:
            yield (SHARED_NODES(instances=self.peak, whole=whole, own=own))


def read_scales(submission: Submission, counted: Sequence[LoggedRun]) -> WeakScales:
    """Return the scales of a weak-scaling result.

    One rank trains on one accelerator, so ``number_of_ranks`` is S. If it is missing, or the concurrent instances would
    not fit into the system, S comes from the logged nodes. If that is impossible too, S is T / M', provided that
    exactly the instances that count ran concurrently: then S is no larger, and the rules require T <= M S. A machine
    without accelerators counts nodes, which several ranks and instances may share: there S is the logged number of
    nodes.

    Parameters
    ----------
    submission
        Of weak scaling.
    counted
        Its instances that count.
    """
    whole, unit = _whole_scale(submission)
    unit = unit or _logged_unit(counted)
    peak = count_together(run.run for run in (*submission.runs, *submission.pruned) if run.run is not None)
    by_nodes = _distinct(instance_scale(run) for run in counted)
    by_ranks = _distinct(_count(run, RANKS) or None for run in counted) if unit == "accelerator" else ()
    told = [(found[0], source) for found, source in ((by_ranks, RANKS), (by_nodes, LOGGED)) if len(found) == 1]
    fitting = [(float(value), source) for value, source in told if not _misfit(value, whole, peak, unit)]
    own, source = fitting[0] if fitting else (math.nan, "")
    together = count_together(run.run for run in counted if run.run is not None)
    if told and not fitting and peak == together == len(counted) and whole % peak == 0:
        own, source = whole / peak, DERIVED
    return WeakScales(whole, own, unit, source, by_ranks, by_nodes, peak)


def counted_instances(submission: Submission, complying: Container[str]) -> tuple[LoggedRun, ...]:
    """Return the instances that count: not pruned, complying, with run_start and run_stop."""
    return tuple(run for run in submission.runs if run.source in complying and run.run is not None)


def instance_scale(run: LoggedRun) -> int | None:
    """Return number_of_nodes x max(accelerators_per_node, 1) of one log; None if either is missing."""
    nodes, accelerators = _count(run, "number_of_nodes"), _count(run, "accelerators_per_node")
    return nodes * max(accelerators, 1) if nodes and accelerators is not None else None


def count_together(spans: Iterable[Span]) -> int:
    """Return the largest number of intervals that overlap at one time."""
    known = list(spans)
    starts, stops = np.array([span.start_ms for span in known]), np.array([span.stop_ms for span in known])
    return max((int(np.sum((starts <= start) & (stops > start))) for start in starts), default=0)


def _misfit(value: float, whole: float, peak: int, unit: str) -> str:
    """Explain why a scale is impossible for an instance; blank if it is possible or T is unknown."""
    if value > whole:
        return LARGER_THAN_WHOLE(whole=whole)
    if unit == "accelerator" and peak * value > whole:
        return NO_FIT(instances=peak, value=value, whole=whole)
    return ""


def _by_value(by_ranks: Sequence[int], by_nodes: Sequence[int]) -> dict[int, str]:
    """Return the source of each scale on which all logs agree."""
    names: dict[int, str] = {}
    for found, name in ((by_ranks, RANKS), (by_nodes, LOGGED)):
        if len(found) == 1:
            names[found[0]] = f"{names[found[0]]} as well as {name}" if found[0] in names else name
    return names


def _whole_scale(submission: Submission) -> tuple[float, str]:
    system = submission.system
    if system is None or system.nodes is None or system.accelerators is None:
        return math.nan, ""
    return float(system.accelerators or system.nodes), _unit(system.accelerators)


def _logged_unit(counted: Sequence[LoggedRun]) -> str:
    known = [_count(run, "accelerators_per_node") for run in counted]
    return next((_unit(number) for number in known if number is not None), "")


def _unit(accelerators: int) -> str:
    return "accelerator" if accelerators else "node"


def _count(run: LoggedRun, key: str) -> int | None:
    """Return a logged count, which some logs write as text; None if it is not a count."""
    value = whole_number(run.settings.get(key))
    return value if value is not None and value >= 0 else None


def _distinct(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({value for value in values if value is not None}))
