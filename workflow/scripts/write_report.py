"""Write the report, a single page that opens offline, and the captions of Snakemake's report."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.report.page import write_report

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
page = Path(snakemake.output.html)
write_report(page.parent, Path(snakemake.params.sources), page, map(Path, snakemake.output.captions))
