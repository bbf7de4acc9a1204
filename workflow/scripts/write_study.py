"""Write the study with all defaults, so that the report uses the same one."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.sealed import sealed_json

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
Path(snakemake.output.study).write_bytes(sealed_json(snakemake.params.study))
