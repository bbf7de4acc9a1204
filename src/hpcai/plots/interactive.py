"""Interactive charts: one Vega-Lite specification yields both the chart on the report's page and its SVG."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

FONT = "DejaVu Sans, Verdana, sans-serif"
MUTED = "#7f7f7f"
"""Colour of ideals, roofs and unmeasured values: readable on light and dark paper, like all chart colours."""
PALETTE = ("#3b8fd4", "#de8f05", "#1fa37f", "#d4572a", "#b56fc0", "#a8793f", "#e07fb5", "#8f8f8f")
"""Colours distinguishable by colour-blind readers, of medium lightness for light and dark paper."""
CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": None,
    "view": {"stroke": None},
    "axis": {"gridColor": "#7f7f7f", "gridOpacity": 0.22, "labelFontSize": 11, "titleFontSize": 11.5},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "labelLimit": 260, "symbolStrokeWidth": 2},
    "title": {"fontSize": 12.5, "anchor": "start"},
    "range": {"category": list(PALETTE)},
}


def to_spec(chart: "alt.TopLevelMixin") -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification in the house theme; equal charts give equal specifications."""
    spec: dict[str, Any] = chart.to_dict()
    return {**spec, "config": CONFIG}


def spec_to_svg(spec: dict[str, Any]) -> str:
    """Render a specification as SVG with black text; the page shows it until scripts run, or if they never do."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the package that also draws the charts as SVG."""
    import vl_convert

    library = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    assert "</script" not in library.lower(), "the library would end its own element"
    assert "<!--" not in library, "the library would begin a comment"
    return library
