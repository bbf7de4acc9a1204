"""Draw one interactive chart: its specification, and the same drawn once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.plots.charts import draw_chart
from hpcai.plots.interactive import spec_to_svg, to_spec

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
tables = {name: pd.read_parquet(path) for name, path in snakemake.input.items()}
spec = to_spec(draw_chart(snakemake.params.chart, tables))
Path(snakemake.output.chart).write_text(json.dumps(spec))
Path(snakemake.output.figure).write_text(spec_to_svg(spec))
