"""Measure the rate of matrix products on this machine: the ceiling of what training can reach."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.characterise.gemm import measure_gemm
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
Path(snakemake.output.gemm).write_text(measure_gemm(snakemake.params.threads))
