"""Tables to figures: no files, no computation; every figure looks alike because of one theme."""

from hpcai.plots.drawing import draw_chart as draw_chart
from hpcai.plots.drawing import draw_figure as draw_figure
from hpcai.plots.table_page import RUN_COLUMNS as RUN_COLUMNS
from hpcai.plots.table_page import SCALE_COLUMNS as SCALE_COLUMNS
from hpcai.plots.table_page import SHOWN_COLUMNS as SHOWN_COLUMNS
from hpcai.plots.table_page import VERDICT_COLUMNS as VERDICT_COLUMNS
from hpcai.plots.table_page import to_html as to_html
from hpcai.plots.theme import to_png as to_png
from hpcai.plots.theme import to_svg as to_svg
