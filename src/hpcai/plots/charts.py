"""All interactive charts by their topic, apart from the figures because Altair takes a second to load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import altair as alt
import pandas as pd

from hpcai.plots.roofline import draw_memory_roofline, draw_roofline
from hpcai.plots.scaling import draw_scaling


@dataclass(frozen=True)
class ChartSpec:
    """One interactive chart: how it is drawn, and from which tables."""

    draw: Callable[..., alt.TopLevelMixin]
    tables: tuple[str, ...]


CHARTS: dict[str, ChartSpec] = {
    "roofline": ChartSpec(draw_roofline, ("roofline_points", "roofline_ceilings", "roofline_moves")),
    "memory_roofline": ChartSpec(draw_memory_roofline, ("roofline_points", "roofline_ceilings")),
    "published_roofline": ChartSpec(draw_roofline, ("published_points", "published_ceilings", "published_moves")),
    "scaling": ChartSpec(draw_scaling, ("scaling", "scaling_details", "scaling_curves", "predictions")),
}
"""By topic, the name of the chart's files and of its caption."""


def draw_chart(topic: str, tables: Mapping[str, pd.DataFrame]) -> alt.TopLevelMixin:
    """Draw one interactive chart.

    Parameters
    ----------
    topic
        A key of :data:`CHARTS`.
    tables
        The tables by name: at least those that ``CHARTS[topic].tables`` lists.
    """
    spec = CHARTS[topic]
    return spec.draw(*(tables[name] for name in spec.tables))
