"""Draw a figure or chart of the catalogue by name."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from hpcai.catalogue.figures import CHARTS, FIGURES, FigureEntry
from hpcai.catalogue.points import engine_words

MODULES = "hpcai.plots.*"
"""Package of the drawing functions; naming it here puts all of them into the digest of every drawing script."""


def draw_figure(name: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw one figure.

    Parameters
    ----------
    name
        A key of :data:`hpcai.catalogue.figures.FIGURES`.
    tables
        The tables by name: at least those that the catalogue lists for the figure.
    """
    drawn: Figure = _draw(FIGURES[name], tables)
    return drawn


def draw_chart(name: str, tables: Mapping[str, pd.DataFrame]) -> Any:  # noqa: ANN401  Altair takes a second to load
    """Draw one interactive chart.

    Parameters
    ----------
    name
        A key of :data:`hpcai.catalogue.figures.CHARTS`.
    tables
        The tables by name, as far as they exist: at least those that the catalogue lists, except predictions, which
        are made last.
    """
    return _draw(CHARTS[name], {"predictions": pd.DataFrame(), **tables})


def _draw(entry: FigureEntry, tables: Mapping[str, pd.DataFrame]) -> Any:  # noqa: ANN401  a figure or a chart
    return getattr(import_module(entry.module), entry.function)(
        *(with_engine_in_variant(tables[table]) for table in entry.tables)
    )


def with_engine_in_variant(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the engine added to the variants' names, unless it is the usual one.

    Figures group and colour by variant; a variant measured with two engines then appears twice.
    """
    if not {"variant", "engine"} <= set(table.columns):
        return table
    names = [", ".join([str(row["variant"]), *engine_words(row)]) for row in table.to_dict("records")]
    return table.assign(variant=pd.Series(names, index=table.index, dtype="object"))
