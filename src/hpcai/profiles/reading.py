"""Reads the captures of one kind of profile into views; what cannot be read is a row with its reason."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from hpcai.config.runs import ProfileKind
from hpcai.core.disturbance import Tolerance
from hpcai.core.errors import HpcaiError
from hpcai.core.table_files import write_parquet
from hpcai.metrics.quietness import judge_quiet
from hpcai.parsers.reading import Reading
from hpcai.profiles.counter_views import counter_views, counters_of
from hpcai.profiles.io_views import io_views
from hpcai.profiles.kernel_views import kernel_views
from hpcai.profiles.power_views import power_views
from hpcai.profiles.profile import Profile
from hpcai.profiles.timeline_views import timeline_views
from hpcai.profiles.views import PROFILE_VIEWS, as_view, join_views

logger = logging.getLogger(__name__)
Views = dict[str, pd.DataFrame]


def read_profiles(kind: ProfileKind, captures: Iterable[str | Path], counters: Iterable[str | Path] = ()) -> Views:
    """Return the views of all captures of one kind.

    A raw file that is damaged, or no longer what was captured, costs its own rows alone.

    Parameters
    ----------
    kind
        What the captures were made for.
    captures
        The files capture.json.
    counters
        For kernels: the captures of hardware counters, of runs of their own.
    """
    profiles = [Profile.at(Path(path)) for path in captures]
    if kind == "kernels":
        known = _counted(Profile.at(Path(path)) for path in counters)
        parts = [_read(one, lambda profile: kernel_views(profile, known.get(_key(profile)))) for one in profiles]
    else:
        parts = [_read(one, READERS[kind]) for one in profiles]
    return {name: join_views(name, [part[name] for part in parts if name in part]) for name in PROFILE_VIEWS[kind]}


READERS: dict[ProfileKind, Callable[[Profile], Views]] = {
    "timeline": timeline_views,
    "counters": counter_views,
    "io": io_views,
    "power": power_views,
}


def _key(profile: Profile) -> tuple[str, str]:
    return profile.plan.point.benchmark, profile.plan.point.variant


def _counted(profiles: Iterable[Profile]) -> dict[tuple[str, str], Reading]:
    """Return the counters of each benchmark and variant that has readable ones."""
    found = {}
    for profile in profiles:
        try:
            reading = counters_of(profile) if profile.capture.status == "measured" else None
        except HpcaiError:  # said in the row of the counters' own capture
            continue
        if reading is not None:
            found[_key(profile)] = reading
    return found


def _read(profile: Profile, reader: Callable[[Profile], Views]) -> Views:
    capture = profile.capture
    if capture.status == "not_measured":
        return {"captures": _row(profile, "not measured", capture.reason, 0.0)}
    try:
        views = reader(profile)
    except HpcaiError as error:
        logger.warning("%s", error)
        return {"captures": _row(profile, "not readable", str(error), 0.0)}
    return {**views, "captures": _row(profile, "measured", *_wholeness(views))}


def _wholeness(views: Views) -> tuple[str, float]:
    """Return why something is missing in what was read, and the smallest coverage of any of its tables."""
    tables = [view for view in views.values() if {"coverage_ratio", "reasons"} <= set(view.columns) and len(view)]
    reasons = dict.fromkeys(text for view in tables for text in view["reasons"] if isinstance(text, str) and text)
    return "; ".join(reasons), min((float(view["coverage_ratio"].min()) for view in tables), default=float("nan"))


def _row(profile: Profile, status: str, reason: str, coverage_ratio: float) -> pd.DataFrame:
    capture = profile.capture
    raw = ", ".join(str(profile.folder / one.path) for one in capture.raw[:3])
    more = f" and {len(capture.raw) - 3} more" if len(capture.raw) > 3 else ""
    row = {
        "profile": capture.profile,
        "tool": capture.tool,
        "status": status,
        "reason": reason,
        "coverage_ratio": coverage_ratio if status == "measured" else float("nan"),
        **_quiet(profile),
        "raw": raw + more,
    }
    return as_view("captures", profile.with_identity(pd.DataFrame([row]), profile.folder / "capture.json"))


def _quiet(profile: Profile) -> dict[str, object]:
    """Return what others took of the machine during a profiled run; nothing is known of what was not captured."""
    if profile.capture.status == "not_measured":
        return asdict(judge_quiet((), Tolerance()))
    record = profile.record
    return asdict(judge_quiet(record.disturbance, record.plan.limits.disturbance))


def write_views(views: Views, paths: Sequence[tuple[str, str]]) -> None:
    """Write views to Parquet files; ``paths`` are pairs of a view's name and its file."""
    for name, path in paths:
        write_parquet(views[name], path)
