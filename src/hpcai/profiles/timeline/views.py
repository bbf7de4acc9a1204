"""Tables of the kind ``timeline``: gradient exchange between ranks, from Horovod's timeline and the steps of rank 0."""

from dataclasses import dataclass, replace

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.communication import Conditions, merge_batches, phase_table
from hpcai.metrics.profiles.communication_steps import communication_summary, spans_of_steps, step_lanes
from hpcai.metrics.profiles.exchange_steps import exchange_steps
from hpcai.parsers.horovod.stream import Account
from hpcai.parsers.horovod.timeline import Timeline, iterate_tables, reading_of
from hpcai.profiles.profile import Profile
from hpcai.profiles.timeline import TIMELINE
from hpcai.profiles.views import as_view


@dataclass(frozen=True)
class Traffic:
    """Timeline of a run's steps, which are converted to the timeline's clock.

    Attributes
    ----------
    timeline
        Spans of the steps, with the ready marks, cycles and doubtful intervals that touch them.
    origin_s
        Zero of the timeline's clock, in seconds since the epoch.
    steps
        ``start_s, duration_s`` of the training steps.
    messages
        Transfers among the spans, each fused batch once.
    """

    timeline: Timeline
    origin_s: float
    steps: pd.DataFrame
    messages: pd.DataFrame

    @property
    def spans(self) -> pd.DataFrame:
        """Spans that belong to the steps."""
        return self.timeline.spans.table

    @property
    def transfer(self) -> str:
        """The communication library's name for its transfers."""
        return str(self.messages["activity"].iloc[0]) if len(self.messages) else "allreduce"


def traffic_of(profile: Profile, known: pd.DataFrame) -> Traffic:
    """Read the timeline of a profiled run piece by piece: memory grows with the steps, not with the file.

    Parameters
    ----------
    profile
        The run.
    known
        The steps to include, as returned by `Profile.steps`.

    Raises
    ------
    ParseError
        If it is entirely damaged, or lacks its start time.
    """
    path, account = profile.file(TIMELINE), Account()
    pieces = []
    for piece in iterate_tables(path, account):
        if account.start_epoch_us is None:  # the first event of the file
            raise ParseError(
                f"{path}: contains no start time, so its steps cannot be located; use Horovod 0.20.1 or newer"
            )
        steps = known.assign(start_s=known["start_s"] - account.start_epoch_us / 1e6)
        pieces.append(
            _near(piece, float(steps["start_s"].min()), float((steps["start_s"] + steps["duration_s"]).max()))
        )
    spans = spans_of_steps(_join([piece.spans.table for piece in pieces]), steps)
    ready, cycles, doubtful = (
        pd.concat([getattr(piece, name) for piece in pieces], ignore_index=True)
        for name in ("ready", "cycles", "doubtful")
    )
    spans = spans.sort_values("start_s", kind="stable", ignore_index=True)
    timeline = Timeline(reading_of(path, account, spans), ready, cycles, doubtful)
    return Traffic(timeline, float(account.start_epoch_us or 0) / 1e6, steps, merge_batches(spans, doubtful))


def _near(piece: Timeline, low_s: float, high_s: float) -> Timeline:
    """Return the parts of a piece that overlap the steps."""
    spans, ready, cycles, doubtful = piece.spans.table, piece.ready, piece.cycles, piece.doubtful
    spans = spans[(spans["start_s"] + spans["duration_s"] >= low_s) & (spans["start_s"] < high_s)]
    return Timeline(
        replace(piece.spans, table=spans.astype({"tensor": object, "activity": object})),
        ready[ready["time_s"].between(low_s, high_s)],
        cycles[cycles["time_s"].between(low_s, high_s)],
        doubtful[(doubtful["end_s"] >= low_s) & (doubtful["start_s"] < high_s)],
    )


def _join(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate span tables, and make their names categories again."""
    return pd.concat(tables, ignore_index=True).astype({"tensor": "category", "activity": "category"})


def timeline_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the views ``communication``, ``phases``, ``exchange_steps``, ``messages`` and ``lanes`` of a profiled run.

    Only the training steps count, not the broadcasts before or the evaluation after them.
    """
    traffic = traffic_of(profile, profile.steps())
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
        "exchange_steps": exchange_steps(traffic.spans),
        "messages": traffic.messages,
    }
    named = {name: profile.with_identity(table, reading.source) for name, table in tables.items()}
    views = {name: as_view(name, table) for name, table in named.items()}
    return {**views, "lanes": lanes_view(profile, traffic, None)}


def lanes_view(profile: Profile, traffic: Traffic, computation: pd.DataFrame | None) -> pd.DataFrame:
    """Return the view ``lanes`` of one run, with a computation lane if operations are given.

    Parameters
    ----------
    profile, traffic
        The profiled run and its timeline.
    computation
        ``name, start_s, duration_s`` of operations on the timeline's clock, or None.
    """
    busy = computation.rename(columns={"name": "activity"}) if computation is not None else None
    lanes = step_lanes(traffic.spans, busy, traffic.steps)
    return as_view("lanes", profile.with_identity(lanes, traffic.timeline.spans.source))
