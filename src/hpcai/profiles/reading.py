"""Read the captures of one kind of profile into views; an unreadable capture is a row with its reason."""

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
from hpcai.profiles.kind import kind_of
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view, join_views

logger = logging.getLogger(__name__)
Views = dict[str, pd.DataFrame]


def read_profiles(kind: ProfileKind, captures: Iterable[str | Path], also: Iterable[str | Path] = ()) -> Views:
    """Return the views of all captures of one kind.

    A raw file that is damaged or changed since its capture invalidates only its own rows.

    Parameters
    ----------
    kind
        The kind of the captures.
    captures
        The capture.json files.
    also
        Captures of the kind needed in addition, from separate runs.
    """
    found = kind_of(kind)
    extra = (found.gather(Profile.at(Path(path)) for path in also),) if found.gather else ()
    parts = [_read(Profile.at(Path(path)), lambda profile: found.read(profile, *extra)) for path in captures]
    return {name: join_views(name, [part[name] for part in parts if name in part]) for name in found.views}


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
    """Return the reasons for missing data, and the smallest coverage of any table."""
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
    """Return the load by others during a profiled run; unknown without a capture."""
    if profile.capture.status == "not_measured":
        return asdict(judge_quiet((), Tolerance()))
    record = profile.record
    return asdict(judge_quiet(record.disturbance, record.plan.limits.disturbance))


def write_views(views: Views, paths: Sequence[tuple[str, str]]) -> None:
    """Write views to Parquet files; ``paths`` are pairs of view name and file."""
    for name, path in paths:
        write_parquet(views[name], path)
