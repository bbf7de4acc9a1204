"""The characterisation tables: names and columns, each answering one question about the runs."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

import pandas as pd

from hpcai.catalogue.profiles import PROFILES
from hpcai.catalogue.tables import columns_of
from hpcai.metrics.quietness import Quiet
from hpcai.profiles.profile import IDENTITY
from hpcai.profiles.view_names import VIEWS_OF_ALL

RUN = (*IDENTITY, "source")
"""A row's configuration, and the raw file from which it was made."""
QUIET = tuple(field.name for field in fields(Quiet))
"""Load by others during the measurement."""

VIEWS: dict[str, tuple[str, ...]] = {name: columns_of(name) for name in VIEWS_OF_ALL} | {
    name: (*RUN, *own) for kind in PROFILES.values() for name, own in kind.columns.items()
}
"""Columns of each view, from the table catalogue or the kind of profile; an empty cell was not measured."""


def as_view(name: str, rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as a view: exactly its columns, in their order."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return frame.reindex(columns=list(VIEWS[name])).reset_index(drop=True)


def join_views(name: str, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate one view of several runs."""
    filled = [part for part in parts if len(part)]
    return as_view(name, pd.concat(filled) if filled else [])
