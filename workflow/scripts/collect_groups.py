"""Analyse runs and weak-scaling groups: contention separate from communication, and resource use."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.campaign.efficiency import efficiency_table
from hpcai.config.machine import Machine
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.metrics.run_tables import read_groups, write_tables
from hpcai.metrics.scaling.contention import tell_contention
from hpcai.metrics.scaling.weak_forecast import forecast_groups

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
groups = read_groups(given.groups)
contention = tell_contention(groups, read_parquet(given.scales))
tables = {
    "contention": contention,
    "weak_forecasts": forecast_groups(groups, contention, Machine.model_validate(snakemake.params.machine)),
    "efficiency": efficiency_table([*given.records, *given.groups]),
}
write_tables(tables, Path(snakemake.output.tables[0]).parent)
