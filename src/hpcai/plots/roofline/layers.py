"""Layers of a roofline: axes, roofs, arrows, results, and the reader's selections."""

import math

import altair as alt
import pandas as pd

from hpcai.metrics.roofline.columns import CEILING, INTRA_NODE, MEMORY, NETWORK, ROOF
from hpcai.metrics.roofline.geometry import Domain
from hpcai.plots.interactive import MUTED, PALETTE
from hpcai.plots.roofline.words import spread_labels

WIDTH, HEIGHT, LABELS = 510, 340, 240
"""Width of a panel, and of the roof names next to it [pixel]."""
WIDEST, BEFORE, CHARACTER = 274, 22, 6.1
"""Maximum width of long names, which the panel gives up; that of the lines to them; mean width of a letter [pixel]."""
INTENSITY = {
    INTRA_NODE: "communication operation intensity [FLOP per byte that one rank sends]",
    NETWORK: "communication operation intensity [FLOP per byte that one node sends]",
    MEMORY: "operation intensity [FLOP per byte of memory traffic]",
}
CHOICES = {"chosen_benchmark": "benchmark", "chosen_variant": "variant"}
EVERY_ARROW = "every_arrow"
FADED = 0.06
STROKE, FILL = (channel("colour:N", scale=None, legend=None) for channel in (alt.Stroke, alt.Fill))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
MOST_SIZES = 6
"""Sizes shown in a legend; the others lie between them."""
LEAST_ARROW = 3
"""Shortest move drawn as an arrow [pixel]."""
_LINE = {ROOF: [1, 0], CEILING: [5, 3], "measured": [1, 0], "declared": [1, 0], "modelled": [4, 3]}


class Axes:
    """Both axes of a panel, for any columns, with the pixels per factor e along each."""

    def __init__(self, domain: Domain, scope: str, beside: float) -> None:
        self.domain, self.scope = domain, scope
        self.beside, self.width = beside, WIDTH + LABELS - beside
        self.across = self.width / math.log(domain.intensities[1] / domain.intensities[0])
        self.up = HEIGHT / math.log(domain.rates[1] / domain.rates[0])

    def x(self, name: str = "intensity") -> alt.X:
        """Return the intensity axis for a column."""
        ends = self.domain.intensities
        scale = alt.Scale(type="log", domain=list(ends), nice=False)
        return alt.X(f"{name}:Q", scale=scale, title=INTENSITY[self.scope], axis=_axis(ends))

    def y(self, name: str = "rate") -> alt.Y:
        """Return the rate axis for a column."""
        ends = self.domain.rates
        scale = alt.Scale(type="log", domain=list(ends), nice=False)
        title = f"rate of one {'node' if self.scope == NETWORK else 'rank'}"
        return alt.Y(f"{name}:Q", scale=scale, title=title, axis=_axis(ends, "FLOP/s"))


class Keys:
    """Shared by all panels: meaning of colours, shapes and sizes, and the reader's selections."""

    def __init__(self, points: pd.DataFrame, placed: pd.DataFrame) -> None:
        # A benchmark has one colour in all rooflines of a study, even in those without other benchmarks.
        self._names = {name: sorted(set(points[name].astype(str))) for name in ("benchmark", "variant")}
        self._shown = {name: sorted(set(placed[name].astype(str))) for name in ("benchmark", "variant")}
        self._colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(self._names["benchmark"])}
        self.ranks = sorted({int(count) for count in placed["ranks"]})

    def params(self, *, arrows: bool) -> list[alt.Parameter]:
        """Return the legend selections, which all panels follow, and the checkbox below the chart."""
        chosen = [alt.selection_point(name=name, fields=[field], bind="legend") for name, field in CHOICES.items()]
        box = alt.binding_checkbox(name="arrows of every scale ")
        return [*chosen, alt.param(name=EVERY_ARROW, value=False, bind=box)] if arrows else chosen

    def paint(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the benchmark's ``colour`` to each row.

        In Vega-Lite a legend is interactive only if a single layer owns it; the other layers take their colours from
        here.
        """
        return frame.assign(colour=[self._colours[str(name)] for name in frame["benchmark"]])

    def colour(self) -> alt.Color:
        """Return the colours of the benchmarks."""
        scale = alt.Scale(domain=list(self._colours), range=list(self._colours.values()))
        legend = alt.Legend(
            orient="bottom", columns=3, values=self._shown["benchmark"], symbolType="circle", symbolOpacity=1
        )
        return alt.Color("benchmark:N", title="benchmark", scale=scale, legend=legend)

    def shape(self) -> alt.Shape:
        """Return the shapes of the variants."""
        names = self._names["variant"]
        scale = alt.Scale(domain=names, range=[SHAPES[number % len(SHAPES)] for number in range(len(names))])
        legend = alt.Legend(
            orient="bottom", columns=2, values=self._shown["variant"], symbolFillColor=MUTED, symbolStrokeWidth=0
        )
        return alt.Shape("variant:N", title="variant", scale=scale, legend=legend)

    def size(self) -> alt.Size:
        """Return the sizes of the numbers of ranks."""
        first, last = self.ranks[0], max(self.ranks[-1], self.ranks[0] + 1)
        shown = self.ranks if len(self.ranks) <= MOST_SIZES else [*self.ranks[: MOST_SIZES - 1], self.ranks[-1]]
        legend = alt.Legend(orient="bottom", columns=3, values=shown, format="d", symbolFillColor=MUTED)
        scale = alt.Scale(type="log", domain=[first, last], range=[40, 200])
        return alt.Size("ranks:Q", title="ranks", scale=scale, legend=legend)


def draw_roofs(cut: pd.DataFrame, axes: Axes) -> list[alt.Chart]:
    """Return roofs and ceilings, the link names along their roofs, and the ridge points."""
    tips = _tips("name", "one", "method", "of", "source")
    lines = alt.Chart(cut).mark_line(color=MUTED, strokeWidth=1.6, clip=True)
    layers = [lines.encode(x=axes.x(), y=axes.y(), detail="line:N", strokeDash=_dash("status"), tooltip=tips)]
    steep = cut[~cut["dense"]].drop_duplicates("line")
    angle = -math.degrees(math.atan2(axes.up, axes.across)) % 360
    for place, (_, part) in enumerate(steep.groupby("line", sort=False)):
        # The fastest link is left of the others: its name goes above its line, theirs below.
        beside = -8 if place == 0 else 12 * place
        mark = alt.Chart(part).mark_text(align="left", angle=angle, dx=14, dy=beside, fontSize=10.5, color=MUTED)
        layers.append(mark.encode(x=axes.x(), y=axes.y(), text="text:N"))
    ridges = cut[cut["dense"] & (cut["ridge_flop_per_byte"] > 0)].drop_duplicates("line")
    if len(ridges):
        mark = alt.Chart(ridges).mark_point(shape="diamond", size=42, filled=True, opacity=1, color=MUTED, clip=True)
        tips = _tips("name", "one", "ridge", "source")
        layers.append(mark.encode(x=axes.x(), y=axes.y(), tooltip=tips))
    return layers


def draw_arrows(moves: pd.DataFrame, axes: Axes, keys: Keys) -> list[alt.Chart]:
    """Return the moves as stems and heads: the main ones, or all if the reader selects them."""
    right = (moves["intensity_to"] / moves["intensity"]).map(math.log) * axes.across
    rise = (moves["rate_to"] / moves["rate"]).map(math.log) * axes.up
    turned = moves.assign(angle=[math.degrees(math.atan2(*pair)) for pair in zip(right, rise, strict=True)])
    base = alt.Chart(keys.paint(turned[(right**2 + rise**2) > LEAST_ARROW**2])).transform_filter(
        f"{EVERY_ARROW} || datum.main"
    )
    tips = _tips("change", "kind", "result", "from", "to", "gain", "note", "source")
    stem = base.mark_rule(strokeWidth=1.3, clip=True).encode(
        x=axes.x(),
        y=axes.y(),
        x2="intensity_to:Q",
        y2="rate_to:Q",
        stroke=STROKE,
        strokeDash=_dash("kind"),
        opacity=_opacity(0.75),
        tooltip=tips,
    )
    head = base.mark_point(shape="triangle-up", size=42, filled=True, clip=True).encode(
        x=axes.x("intensity_to"),
        y=axes.y("rate_to"),
        angle=alt.Angle("angle:Q", scale=None),
        fill=FILL,
        opacity=_opacity(0.9),
        tooltip=tips,
    )
    return [stem, head]


def draw_results(placed: pd.DataFrame, axes: Axes, keys: Keys, *, arrows: bool) -> list[alt.Chart]:
    """Return the results, a thin line through those of a variant, and a dash at each result's own roof."""
    tips = _tips(
        "result", "method", "scale", "precision", "intensity_text", "work", "traffic", "rate_text", "one", "roof_text",
        "share", "computation", "link", "ridge", "bound", "note", "source",
    )  # fmt: skip
    base = alt.Chart(keys.paint(placed))
    path = base.mark_line(strokeWidth=1, clip=True).encode(
        x=axes.x(),
        y=axes.y(),
        stroke=STROKE,
        detail=["variant:N", "origin:N", "machine:N"],
        order="ranks:Q",
        opacity=_opacity(0.45),
    )
    dashes = base.mark_point(shape="stroke", size=110, strokeWidth=1.5, clip=True).encode(
        x=axes.x(), y=axes.y("roof"), stroke=STROKE, opacity=_opacity(0.6), tooltip=tips
    )
    marks = base.mark_point(filled=True, clip=True).encode(
        x=axes.x(),
        y=axes.y(),
        color=keys.colour(),
        shape=keys.shape(),
        size=keys.size(),
        opacity=_opacity(1.0),
        tooltip=tips,
    )
    return [path, dashes, marks.add_params(*keys.params(arrows=arrows))]


def names_width(cut: pd.DataFrame) -> float:
    """Return the width that the names of the computation ceilings need [pixel]."""
    return float(min(WIDEST, max(LABELS, BEFORE + CHARACTER * cut.loc[cut["dense"], "text"].str.len().max())))


def names(cut: pd.DataFrame, axes: Axes) -> alt.LayerChart:
    """Return the names of the computation ceilings next to the panel, spread apart, each with a line to its ceiling."""
    named = spread_labels(cut[cut["dense"]].drop_duplicates("line", keep="last"), axes.domain.rates, HEIGHT)
    x = alt.X("side:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    y = alt.Y("place:Q", scale=alt.Scale(domain=[0, HEIGHT], nice=False), axis=None)
    lead = alt.Chart(named).mark_line(color=MUTED, strokeWidth=0.8).encode(x=x, y=y, detail="line:N")
    text = alt.Chart(named[named["side"] > 0]).mark_text(
        align="left", dx=3, fontSize=10.5, limit=axes.beside - BEFORE, color=MUTED
    )
    tips = _tips("name", "one", "method", "of", "source")
    both: alt.LayerChart = lead + text.encode(x=x, y=y, text="text:N", tooltip=tips)
    return both.properties(width=axes.beside, height=HEIGHT)


def _axis(ends: tuple[float, float], unit: str = "") -> alt.Axis:
    """Return an axis labelled at powers of ten, or at 1, 2 and 5 if there are few of them."""
    first, last = (math.log10(end) for end in ends)
    steps = (1,) if last - first > 2 else (1, 2, 5)
    powers = range(math.floor(first), math.ceil(last) + 1)
    values = [step * 10.0**power for power in powers for step in steps if ends[0] <= step * 10.0**power <= ends[1]]
    words = "datum.value < 1 ? format(datum.value, '~g') : format(datum.value, '~s')"
    if unit:
        words = f"replace(format(datum.value, '~s'), /([a-zA-Zµ]?)$/, ' $1{unit}')"
    return alt.Axis(values=values, labelExpr=words, labelOverlap=True)


def _dash(name: str) -> alt.StrokeDash:
    scale = alt.Scale(domain=list(_LINE), range=list(_LINE.values()))
    return alt.StrokeDash(f"{name}:N", legend=None, scale=scale)


def _opacity(shown: float) -> alt.OpacityValue:
    chosen = {"and": [{"param": name} for name in CHOICES]}
    return alt.OpacityValue(FADED, condition={"test": chosen, "value": shown})


def _tips(*columns: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=name.removesuffix("_text").replace("_", " ")) for name in columns]
