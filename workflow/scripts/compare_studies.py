"""Compare the study with an earlier one, and write the history of several."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.compare.tables import comparison_tables
from hpcai.logs import log_to
from hpcai.tables import write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
folder = Path(snakemake.output[0]).parent
write_tables(comparison_tables(snakemake.params.earlier, folder.parent), folder)
