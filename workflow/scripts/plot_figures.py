"""Draw several figures of the report from the same tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots import draw_figure, to_svg

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
tables = {name: pd.read_parquet(path) for name, path in snakemake.input.items()}
for topic, path in snakemake.output.items():
    Path(path).write_bytes(to_svg(draw_figure(topic, tables)))
