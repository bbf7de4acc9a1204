"""Place every result under the roofs of its machine, and published ones under those of theirs."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.config.published import load_published
from hpcai.logs import log_to
from hpcai.metrics.declared_roofline import declared_ceilings, declared_roofline
from hpcai.metrics.roofline_ceilings import roofline_ceilings
from hpcai.metrics.roofline_moves import roofline_moves
from hpcai.metrics.roofline_tables import roofline_points
from hpcai.tables import join_tables, write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
views = {name: pd.read_parquet(path) for name, path in snakemake.input.items() if name != "published"}
machine = Machine.model_validate(snakemake.params.machine)
published = [load_published(Path(path)) for path in snakemake.input.published]
own = roofline_ceilings(*(views[name] for name in ("scores", "ceilings", "links", "link_fits")), machine)
points = roofline_points(views["scores"], own, views, views["runs"], machine)
others = join_tables([points.head(0), *map(declared_roofline, published)])
theirs = join_tables([own.head(0), *map(declared_ceilings, published)])
tables = {
    "roofline_points": points,
    "roofline_ceilings": own,
    "roofline_moves": roofline_moves(points, own, views["scales"]),
    "published_points": others,
    "published_ceilings": theirs,
    "published_moves": roofline_moves(others, theirs),
}
write_tables(tables, Path(snakemake.output[0]).parent)
