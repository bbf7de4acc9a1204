"""Texts of figures whose panels share axes: only the outer panels have tick labels."""

from itertools import chain

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from unit.plots.test_figures import ticks_inside


def visible_texts(figure: Figure) -> list[Text]:
    """Return all drawn texts of the drawn panels."""
    texts = [text for legend in figure.legends for text in [*legend.get_texts(), legend.get_title()]]
    for axes in figure.axes:
        if axes.get_visible():
            texts += [axes._left_title, axes._right_title, *axes.texts, axes.xaxis.label, axes.yaxis.label]
            texts += chain.from_iterable(_labels(axis) for axis in (axes.xaxis, axes.yaxis))
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def _labels(axis: Axis) -> list[Text]:
    labels = axis.get_ticklabels()
    limits = axis.get_view_interval()
    return ticks_inside(axis.get_ticklocs(), labels, (limits[0], limits[1])) if labels else []
