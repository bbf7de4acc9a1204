"""Generate, download or scan one dataset, and verify it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.data.prepare import prepare_dataset
from hpcai.data.registry import data_module
from hpcai.measure.claim import make_once

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
workload, manifest = snakemake.params.workload, Path(snakemake.output.manifest)
module = data_module(workload, snakemake.params.settings)
# Not a parameter of the rule: a checkout in another place does not change the data.
catalogue = Path(snakemake.scriptdir).parents[1] / "config/datasets.tsv"
make_once(manifest, partial(prepare_dataset, workload, module, manifest.parent, catalogue))
