"""Write the report, a single page that opens offline, the captions of Snakemake's report, and the research object."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.report.page import write_report
from hpcai.report.research_object import write_crate

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
page = Path(snakemake.output.html)
write_report(page.parent, Path(snakemake.params.sources), page, map(Path, snakemake.output.captions))
write_crate(page.parent, [*map(Path, snakemake.input.records)], [*map(Path, snakemake.params.workflow)])
