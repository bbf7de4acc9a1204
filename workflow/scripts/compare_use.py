"""Compare what each run asked for with what it used."""

from typing import TYPE_CHECKING

from hpcai.campaign.efficiency import efficiency_table
from hpcai.logs import log_to
from hpcai.tables import write_table

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_table(efficiency_table(snakemake.input.records), snakemake.output.csv, snakemake.output.parquet)
