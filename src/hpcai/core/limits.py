"""How much of a result of any size pages and figures show, so that they stay small; the tables have all of it.

Limits of a computation are beside it, such as ``MOST_SUBMISSIONS`` of the predictions of rounds.
"""

MOST_PANELS = 24
"""Panels of one figure: nobody looks at more, and Matplotlib's layout of a thousand does not end."""
MOST_MARKS = 60
"""Results in one panel of a figure of rounds, one mark or one line each."""
MOST_KEYS = 40
"""Variants of a benchmark, or pairs of them, in a figure that names them in its legend."""
MOST_LINES_NAMED = 20
"""Lines of one panel whose names stand beside it: more names are higher than the panel, and colours would repeat."""
MOST_ROWS = 150
"""Rows of one table of a page."""
MOST_LINES = 40
"""Items of one list of a page or a caption."""
MOST_FILES = 500
"""Raw files that a page links for each folder, beside those of its tables."""
MOST_DRAWING_BYTES = 1_000_000
"""Size of a drawing or a chart's data inside a page; of a larger one the page has the link."""
