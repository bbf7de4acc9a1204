"""Generate, download or scan one dataset, and verify it."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.data.prepare import prepare_dataset
from hpcai.data.registry import data_module
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
workload = snakemake.params.workload
prepare_dataset(
    workload,
    data_module(workload, snakemake.params.settings),
    Path(snakemake.output.manifest).parent,
    Path(snakemake.params.datasets),
)
