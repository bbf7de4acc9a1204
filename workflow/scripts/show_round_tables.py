"""Show each table of rounds with all its columns as a page."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots import to_html

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
note = "Computed from published logs and from those of our own runs (column method). Empty: not known, or not defined."
for table, page, title in zip(snakemake.input, snakemake.output, snakemake.params.titles, strict=True):
    Path(page).write_text(to_html(pd.read_parquet(table), title, note))
