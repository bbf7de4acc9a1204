"""Measure the rates of DGEMM, DTRSM and the panel factorisation in the BLAS that HPL loads."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.machine.ceilings.measures import report_quietly
from hpcai.machine.hpl.blas_rates import measure_blas_rates

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
Path(snakemake.output.report).write_text(report_quietly(partial(measure_blas_rates, asked.tests), snakemake.config))
