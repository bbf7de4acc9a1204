"""Interactive charts: one Vega-Lite specification serves the report's page and, rendered once, the SVG."""

from typing import Any

import altair as alt
import vl_convert

FONT = "DejaVu Sans, Verdana, sans-serif"
MUTED = "#7f7f7f"
"""Ideals, roofs and what was not measured: readable on light and on dark paper, as all colours of charts must be."""
PALETTE = ("#3b8fd4", "#de8f05", "#1fa37f", "#d4572a", "#b56fc0", "#a8793f", "#e07fb5", "#8f8f8f")
"""Colours that colour-blind readers can tell apart, of middling lightness, for light and dark paper."""
CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": None,
    "view": {"stroke": None},
    "axis": {"gridColor": "#7f7f7f", "gridOpacity": 0.22, "labelFontSize": 11, "titleFontSize": 11.5},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "labelLimit": 260, "symbolStrokeWidth": 2},
    "title": {"fontSize": 12.5, "anchor": "start"},
    "range": {"category": list(PALETTE)},
}


def to_spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification under the house theme; equal charts give equal specifications."""
    spec: dict[str, Any] = chart.to_dict()
    return {**spec, "config": CONFIG}


def spec_to_svg(spec: dict[str, Any]) -> str:
    """Return a specification drawn as SVG with black text: what stands in the page until, or unless, scripts run."""
    return str(vl_convert.vegalite_to_svg(spec))
