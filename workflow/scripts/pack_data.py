"""Pack one dataset into shards for fast staging."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.benchmark import PackSettings
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import pack_dataset
from hpcai.data.registry import data_module
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
path = Path(snakemake.input.manifest)
manifest = read_manifest(path)
pack_dataset(
    manifest,
    data_module(manifest.workload, snakemake.params.data),
    manifest.root(path),
    PackSettings.model_validate(snakemake.params.settings),
    Path(snakemake.output.packed).parent,
)
