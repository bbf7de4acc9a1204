"""Pack one dataset into shards for fast staging."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.benchmark import PackSettings
from hpcai.core.logs import log_to
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import pack_dataset
from hpcai.data.registry import data_module
from hpcai.measure.claim import make_once

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
path, packed = Path(snakemake.input.manifest), Path(snakemake.output.packed)
manifest = read_manifest(path)
module = data_module(manifest.workload, snakemake.params.data)
settings = PackSettings.model_validate(snakemake.params.settings)
make_once(packed, partial(pack_dataset, manifest, module, manifest.root(path), settings, packed.parent))
