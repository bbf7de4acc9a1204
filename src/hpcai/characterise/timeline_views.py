"""How the ranks of a profiled run exchanged their gradients, from Horovod's timeline and the steps of rank 0."""

from dataclasses import dataclass

import pandas as pd

from hpcai.characterise.profile import Profile
from hpcai.characterise.views import as_view
from hpcai.errors import ParseError
from hpcai.metrics.communication import Conditions, merge_batches, phase_table
from hpcai.metrics.communication_steps import communication_summary, step_lanes
from hpcai.parsers.horovod.timeline import Timeline, read_timeline_tables

TIMELINE = "timeline.json"


@dataclass(frozen=True)
class Traffic:
    """A timeline with the steps of its run, which are put on the timeline's clock.

    Attributes
    ----------
    timeline
        All that was read.
    origin_s
        Zero of the timeline's clock, in seconds since the epoch.
    steps
        ``start_s, duration_s`` of the training steps.
    spans, messages
        Spans that begin within the steps, and their transfers, each fused batch once.
    """

    timeline: Timeline
    origin_s: float
    steps: pd.DataFrame
    spans: pd.DataFrame
    messages: pd.DataFrame

    @property
    def transfer(self) -> str:
        """What the communication library calls its transfers."""
        return str(self.messages["activity"].iloc[0]) if len(self.messages) else "allreduce"


def traffic_of(profile: Profile, first_step: int = 0) -> Traffic:
    """Read the timeline of a profiled run.

    Parameters
    ----------
    profile
        The run.
    first_step
        Steps before this one are left out.

    Raises
    ------
    ParseError
        If it is damaged throughout, or does not say when it began.
    """
    path = profile.file(TIMELINE)
    timeline = read_timeline_tables(path)
    start_us = timeline.spans.facts["start_epoch_us"]
    if not isinstance(start_us, int):
        raise ParseError(f"{path}: says not when it began, so its steps cannot be found; use Horovod 0.20.1 or newer")
    steps = profile.steps().iloc[first_step:].assign(start_s=lambda known: known["start_s"] - start_us / 1e6)
    spans = timeline.spans.table
    end_s = (steps["start_s"] + steps["duration_s"]).max()
    spans = spans[(spans["start_s"] >= steps["start_s"].min()) & (spans["start_s"] < end_s)]
    return Traffic(timeline, start_us / 1e6, steps, spans, merge_batches(spans, timeline.doubtful))


def timeline_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the views ``communication``, ``phases``, ``messages`` and ``lanes`` of one profiled run.

    Only what happened during the training steps counts: not the broadcasts before, not the evaluation after.
    """
    traffic = traffic_of(profile)
    reading = traffic.timeline.spans
    conditions = Conditions(
        ranks=profile.plan.point.ranks,
        windows=traffic.steps,
        doubtful=traffic.timeline.doubtful,
        coverage_ratio=reading.coverage_ratio,
        reasons=reading.reasons,
    )
    row = communication_summary(traffic.spans, traffic.timeline.ready, traffic.timeline.cycles, conditions)
    tables = {
        "communication": pd.DataFrame([row]),
        "phases": phase_table(traffic.spans),
        "messages": traffic.messages,
    }
    named = {name: profile.with_identity(table, reading.source) for name, table in tables.items()}
    views = {name: as_view(name, table) for name, table in named.items()}
    return {**views, "lanes": lanes_view(profile, traffic, None)}


def lanes_view(profile: Profile, traffic: Traffic, computation: pd.DataFrame | None) -> pd.DataFrame:
    """Return the view ``lanes`` of one run, with the lane of computation where operations are given.

    Parameters
    ----------
    profile, traffic
        The profiled run and its timeline.
    computation
        ``name, start_s, duration_s`` of operations on the timeline's clock, or None.
    """
    busy = computation.rename(columns={"name": "activity"}) if computation is not None else None
    lanes = step_lanes(traffic.spans, busy, traffic.steps)
    return as_view("lanes", profile.with_identity(lanes, profile.file(TIMELINE)))
