"""Generate, download or scan one dataset, and verify it."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.cosmoflow import CosmoFlowData
from hpcai.data.prepare import prepare_dataset
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
prepare_dataset(
    CosmoFlowData.model_validate(snakemake.params.settings),
    Path(snakemake.output.manifest).parent,
    Path(snakemake.params.datasets),
)
