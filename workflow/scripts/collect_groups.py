"""Analyse runs and weak-scaling groups: contention separate from communication, and resource use."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.campaign.efficiency import efficiency_table
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import read_groups, write_tables
from hpcai.metrics.scaling.contention import tell_contention

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
tables = {
    "contention": tell_contention(read_groups(given.groups), read_parquet(given.scales)),
    "efficiency": efficiency_table([*given.records, *given.groups]),
}
write_tables(tables, Path(snakemake.output.tables[0]).parent)
