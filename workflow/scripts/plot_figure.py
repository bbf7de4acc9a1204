"""Draw one figure of the report."""

from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots.registry import draw_figure
from hpcai.plots.theme import save_svg

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
tables = {name: pd.read_parquet(path) for name, path in snakemake.input.items()}
save_svg(draw_figure(snakemake.params.figure, tables), snakemake.output.figure)
