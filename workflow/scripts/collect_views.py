"""Join the views of all profiles with the ceilings of the machine and the rates of the timed runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.machine import Machine
from hpcai.core.disturbance import Tolerance
from hpcai.core.files import write_atomically
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import write_tables
from hpcai.profiles.collect import Measured, collect_views, read_views, summarise_views

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given, asked = snakemake.input, snakemake.params
measured = Measured(
    ceilings=given.ceilings,
    links=given.links,
    work=given.work,
    scales=read_parquet(given.scales),
    machine=Machine.model_validate(asked.machine),
    tolerance=Tolerance.model_validate(asked.tolerance),
)
views = collect_views(read_views({name: given[name] for name in asked.views}), measured)
write_tables(views, Path(snakemake.output.summary).parent / "tables")
write_atomically(Path(snakemake.output.summary), summarise_views(views))
