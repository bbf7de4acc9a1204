"""All interactive charts by their topic, apart from the figures because Altair takes a second to load."""

from collections.abc import Callable, Mapping

import altair as alt
import pandas as pd

from hpcai import catalogue
from hpcai.plots.roofline import draw_memory_roofline, draw_roofline
from hpcai.plots.scaling import draw_scaling

CHARTS: dict[str, Callable[..., alt.TopLevelMixin]] = {
    "roofline": draw_roofline,
    "memory_roofline": draw_memory_roofline,
    "published_roofline": draw_roofline,
    "scaling": draw_scaling,
}
"""How each chart of the catalogue is drawn, by its name."""


def draw_chart(topic: str, tables: Mapping[str, pd.DataFrame]) -> alt.TopLevelMixin:
    """Draw one interactive chart.

    Parameters
    ----------
    topic
        A key of :data:`CHARTS`.
    tables
        The tables by name, as far as they were made: at least those that the catalogue lists, but for predictions,
        which come after everything else.
    """
    shown = {"predictions": pd.DataFrame(), **tables}
    return CHARTS[topic](*(shown[name] for name in catalogue.CHARTS[topic].tables))
