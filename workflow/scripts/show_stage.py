"""Draw the figures and charts of one stage in one process: starting Python takes longer than drawing."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.sealed import seal_drawing, sealed_json
from hpcai.core.table_files import read_parquet
from hpcai.plots.drawing import draw_chart, draw_figure
from hpcai.plots.theme import to_svg

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
tables = {Path(path).stem: read_parquet(path) for path in snakemake.input}
given = snakemake.output
for figure in map(Path, given.get("figures", [])):
    figure.write_bytes(seal_drawing(to_svg(draw_figure(figure.stem, tables))))
if charts := [Path(path) for path in given.get("charts", [])]:
    # Altair takes time to load, and only one stage has charts.
    from hpcai.plots.interactive import spec_to_svg, to_spec

    for chart in charts:
        specification = to_spec(draw_chart(chart.stem, tables))
        chart.with_suffix(".json").write_bytes(sealed_json(specification))
        chart.write_bytes(seal_drawing(spec_to_svg(specification).encode()))
