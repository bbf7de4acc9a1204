"""Draw one figure of the report."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots import draw_figure, to_svg

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
tables = {name: pd.read_parquet(path) for name, path in snakemake.input.items()}
Path(snakemake.output.figure).write_bytes(to_svg(draw_figure(snakemake.params.figure, tables)))
