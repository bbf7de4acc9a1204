"""Interactive rooflines: results under the roofs of computation, links and memory."""

import warnings

import altair as alt
import pandas as pd

from hpcai.catalogue.figures import figure
from hpcai.metrics.roofline.columns import CEILING, INTRA_NODE, MEMORY, NETWORK, ROOF
from hpcai.metrics.roofline.geometry import cut_lines, frame_of, moves_of_one, points_of_one, roof_lines
from hpcai.plots.interactive import MUTED
from hpcai.plots.roofline.layers import (
    HEIGHT,
    LABELS,
    WIDTH,
    Axes,
    Keys,
    draw_arrows,
    draw_results,
    draw_roofs,
    names,
    names_width,
)
from hpcai.plots.roofline.words import describe_lines, describe_moves, describe_points, say_nothing
from hpcai.plots.thinning import most_of, only_drawn

TITLES = {
    INTRA_NODE: "HPC-AI roofline within a node: one rank",
    NETWORK: "HPC-AI roofline over the network: one node",
    MEMORY: "Memory roofline: one rank",
}
MARKS = "solid lines: roofs, dashed lines: other ceilings; dash above a point: its own roof; diamond: ridge point"
ARROWS = (
    "arrows to the right: compression fp16, vertical: mixed precision; solid: between two results,",
    "dashed: modelled at a constant share of the roof, the real gain may be larger or smaller",
)


@figure(
    "roofline",
    stage="scores",
    category="Roofline",
    title="HPC-AI roofline",
    tables=("roofline_points", "roofline_ceilings", "roofline_moves"),
    section="roofline",
    before="roofline_points",
    interactive=True,
)
@figure(
    "published_roofline",
    stage="scores",
    category="Roofline",
    title="Published results under their own roofs",
    tables=("published_points", "published_ceilings", "published_moves"),
    section="ranking",
    before="published_points",
    interactive=True,
)
def draw_roofline(points: pd.DataFrame, ceilings: pd.DataFrame, moves: pd.DataFrame) -> alt.VConcatChart:
    """Draw the communication rooflines: within nodes, and over the network if there is one.

    Parameters
    ----------
    points, ceilings, moves
        Tables `roofline_points`, `roofline_ceilings`, `roofline_moves`.

    Returns
    -------
    altair.VConcatChart
        One panel per scope with points or roofs; without any, a sentence with the reason. Rates are per participant, so
        that results on different numbers of ranks share the same roofs.
    """
    return _draw(points, ceilings, moves, (INTRA_NODE, NETWORK))


@figure(
    "memory_roofline",
    stage="scores",
    category="Roofline",
    title="Memory roofline",
    tables=("roofline_points", "roofline_ceilings"),
    section="roofline",
    before="work",
    interactive=True,
)
def draw_memory_roofline(points: pd.DataFrame, ceilings: pd.DataFrame) -> alt.VConcatChart:
    """Draw the classical roofline over memory traffic; tables as in :func:`draw_roofline`."""
    return _draw(points, ceilings, None, (MEMORY,))


def _draw(
    points: pd.DataFrame, ceilings: pd.DataFrame, moves: pd.DataFrame | None, scopes: tuple[str, ...]
) -> alt.VConcatChart:
    drawn = [scope for scope in scopes if _has_roofs(ceilings, scope)]
    if not drawn:
        return alt.vconcat(_sentence(say_nothing(points[points["scope"].isin(scopes)])))
    # The reader's question is how near a roof the best come.
    points, left_out = most_of(points.assign(distance=-points["roof_ratio"]), "variant", "distance")
    points = points.drop(columns="distance")
    keys = Keys(points, points_of_one(points[points["scope"].isin(drawn)]))
    if moves is not None and left_out:
        moves = only_drawn(moves, points)
    moved = None if moves is None or moves.empty else moves_of_one(moves)
    panels: list[alt.HConcatChart | alt.Chart] = [
        _panel(points[points["scope"] == scope], ceilings, moved, scope, keys) for scope in drawn
    ]
    if left_out:
        panels.append(_sentence([f"{left_out:,} more variants in the tables, none nearer to its roof"]))
    with warnings.catch_warnings():
        # Sharing one selection among all panels is intended.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        chart: alt.VConcatChart = alt.vconcat(*panels, spacing=24).resolve_scale(x="independent", y="independent")
    return chart


def _has_roofs(ceilings: pd.DataFrame, scope: str) -> bool:
    """Return whether a scope has a roof of computation and one of its links."""
    roofs = ceilings[(ceilings["scope"] == scope) & ceilings["status"].isin((ROOF, CEILING)) & (ceilings["value"] > 0)]
    return set(roofs["unit"]) >= {"FLOP/s", "B/s"}


def _panel(
    points: pd.DataFrame, ceilings: pd.DataFrame, moves: pd.DataFrame | None, scope: str, keys: Keys
) -> alt.HConcatChart:
    placed = points_of_one(points)
    lines = roof_lines(ceilings[ceilings["scope"] == scope])
    moved = None if moves is None else moves[moves["scope"] == scope]
    domain = frame_of(lines, placed, moved)
    cut = describe_lines(cut_lines(lines, domain), scope)
    axes, notes = Axes(domain, scope, names_width(cut)), [MARKS]
    layers = draw_roofs(cut, axes)
    if moved is not None and len(moved):
        notes += ARROWS
        layers += draw_arrows(describe_moves(moved), axes, keys)
    if len(placed):
        layers += draw_results(describe_points(placed), axes, keys, arrows=moves is not None)
    else:
        notes += say_nothing(points)
    title = alt.TitleParams(
        TITLES[scope], anchor="start", subtitle=notes, subtitleFontSize=10.5, subtitleColor=MUTED, offset=8
    )
    panel = alt.layer(*layers).properties(width=axes.width, height=HEIGHT, title=title)
    both = alt.hconcat(panel, names(cut, axes), spacing=2)
    chart: alt.HConcatChart = both.resolve_scale(x="independent", y="independent")
    return chart


def _sentence(sentences: list[str]) -> alt.Chart:
    frame = pd.DataFrame({"text": ["\n".join(sentences)]})
    mark = alt.Chart(frame).mark_text(align="left", x=0, lineBreak="\n", fontSize=12, color=MUTED)
    chart: alt.Chart = mark.encode(text="text:N").properties(width=WIDTH + LABELS, height=60)
    return chart
