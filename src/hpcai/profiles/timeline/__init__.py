"""The kind ``timeline``: gradient exchange between ranks, from Horovod's timeline and the steps of rank 0."""

from typing import TYPE_CHECKING

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.profiles.kind import Kind

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

NO_TIMELINE = Message(
    "timeline.no_timeline",
    "only Horovod writes a timeline, and the engine is {engine}; use the profile kernels for its share of collectives",
)
TIMELINE = "timeline.json"
TIMELINE_ENVIRONMENT = {"HOROVOD_TIMELINE": "{raw}/timeline.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
"""Rank 0 writes the timeline (Horovod's docs/timeline.rst)."""


def _find(plan: RunPlan) -> Instrument | Missing:
    if plan.point.ranks == 1:
        return Missing("a single rank exchanges no gradients; give the run table a row with more ranks")
    if plan.point.engine == "jax":
        return Missing("engine jax: gradients travel within XLA's program, of which there is no timeline")
    if plan.point.engine != USUAL_ENGINE:
        return Missing(NO_TIMELINE(engine=plan.point.engine))
    return Instrument("Horovod timeline", (TIMELINE,), environment=TIMELINE_ENVIRONMENT)


def _read(profile: "Profile") -> "dict[str, pd.DataFrame]":
    from hpcai.profiles.timeline.views import timeline_views

    return timeline_views(profile)


PROFILE = Kind(
    place=1,
    tables=("phases", "exchange_steps", "communication", "messages", "lanes"),
    find_instrument=_find,
    read=_read,
)
