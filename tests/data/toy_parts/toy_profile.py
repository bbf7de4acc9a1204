"""The kind ``toy``: processor time that a node spent during a profiled run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import psutil

from hpcai.config.runs import RunPlan
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.profiles.kind import Kind
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view

FILE = "node_time.csv"


@contextmanager
def _watch(raw: Path) -> Iterator[None]:
    before = psutil.cpu_times()
    yield
    after = psutil.cpu_times()
    (raw / FILE).write_text(f"user_s,system_s\n{after.user - before.user:.2f},{after.system - before.system:.2f}\n")


def _find(plan: RunPlan) -> Instrument | Missing:
    if plan.point.nodes > 1:
        return Missing("only this node is seen; give the run table a row with one node")
    return Instrument("node clock", (FILE,), beside=_watch)


def _read(profile: Profile) -> dict[str, pd.DataFrame]:
    path = profile.file(FILE)
    return {"node_time": as_view("node_time", profile.with_identity(pd.read_csv(path), path))}


PROFILE = Kind(
    tables=("node_time",),
    columns={"node_time": ("user_s", "system_s")},
    find_instrument=_find,
    read=_read,
)
