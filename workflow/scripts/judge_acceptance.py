"""Judge the acceptance of the machine, and write its table and page."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.report.own_pages import write_acceptance

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_acceptance(Path(snakemake.input.measurements), Path(snakemake.output.html).parent)
