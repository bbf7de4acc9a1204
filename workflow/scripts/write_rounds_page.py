"""Write the page on MLPerf HPC rounds: for rounds without a study."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.report.page import write_rounds_page

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
page = Path(snakemake.output.html)
write_rounds_page(page.parent, snakemake.params.place, Path(snakemake.params.sources), page)
