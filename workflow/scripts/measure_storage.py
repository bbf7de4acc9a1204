"""Measure reading and writing of the storage that the runs use."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.characterise.storage import measure_storage
from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
Path(snakemake.output.report).write_text(measure_storage(snakemake.params.places))
