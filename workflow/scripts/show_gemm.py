"""Show the measured GEMM rates as a page of the report."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.characterise.gemm import GemmReport
from hpcai.logs import log_to
from hpcai.plots import to_html
from hpcai.records import read_part

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
report = read_part(GemmReport, Path(snakemake.input.gemm))
frame = pd.DataFrame([sample.model_dump() for sample in report.best])
Path(snakemake.output.page).write_text(to_html(frame, snakemake.params.title, snakemake.params.note))
