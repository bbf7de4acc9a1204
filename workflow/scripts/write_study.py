"""Write the study with all its defaults, so that the report is made from the same one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.logs import log_to

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
Path(snakemake.output.study).write_text(json.dumps(snakemake.params.study, indent=1))
