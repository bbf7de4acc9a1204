"""Measure the rates of DGEMM, DTRSM and the panel factorisation in the BLAS that HPL loads."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.characterise.blas_rates import measure_blas_rates
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
Path(snakemake.output.report).write_text(measure_blas_rates(snakemake.params.tests))
