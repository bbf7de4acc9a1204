"""Draw figures from tables, without file access or computation; one theme gives all figures the same look."""

from hpcai.plots.drawing import draw_chart as draw_chart
from hpcai.plots.drawing import draw_figure as draw_figure
from hpcai.plots.theme import to_png as to_png
from hpcai.plots.theme import to_svg as to_svg
