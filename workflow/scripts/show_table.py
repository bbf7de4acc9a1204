"""Show one table as a page of the report."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots import SHOWN_COLUMNS, to_html

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
frame = pd.read_parquet(snakemake.input.table)
columns = SHOWN_COLUMNS[snakemake.params.table]
Path(snakemake.output.page).write_text(to_html(frame, snakemake.params.title, snakemake.params.note, columns))
