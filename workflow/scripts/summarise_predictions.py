"""Write the table rows that the report's texts mention."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.files import write_atomically
from hpcai.core.logs import log_to
from hpcai.metrics.run_tables import rows_as_json

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_atomically(Path(snakemake.output.summary), rows_as_json(map(Path, snakemake.input.tables)))
