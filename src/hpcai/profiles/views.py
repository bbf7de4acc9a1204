"""The tables that characterisation shows: their names and columns, each the answer to one question about the runs."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.runs import ProfileKind
from hpcai.metrics.quietness import Quiet
from hpcai.profiles.profile import IDENTITY

RUN = (*IDENTITY, "source")
"""Which point a row belongs to, and the raw file that it was made from."""
QUIET = tuple(field.name for field in fields(Quiet))
"""What others took of the machine meanwhile."""

VIEWS: dict[str, tuple[str, ...]] = {
    name: columns_of(name)
    for name in (
        *("captures", "phases", "communication", "messages", "lanes", "overlap", "kernels", "kernel_names", "counters"),
        *("io", "io_workers", "power", "work", "ceilings", "links", "link_fits", "characterisation"),
        *("inconsistencies", "advice"),
    )
}
"""Columns of each view, as the catalogue of tables has them; an empty cell was not measured."""

PROFILE_VIEWS: dict[ProfileKind, tuple[str, ...]] = {
    "timeline": ("captures", "phases", "communication", "messages", "lanes"),
    "kernels": ("captures", "kernels", "kernel_names", "lanes", "overlap"),
    "counters": ("captures", "counters"),
    "io": ("captures", "io", "io_workers"),
    "power": ("captures", "power"),
}
"""What each kind of profile tells, and whether it was captured at all."""


def as_view(name: str, rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as a view: all of its columns in their order, and no others."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return frame.reindex(columns=list(VIEWS[name])).reset_index(drop=True)


def join_views(name: str, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return one view of several runs."""
    filled = [part for part in parts if len(part)]
    return as_view(name, pd.concat(filled) if filled else [])
