"""Measure read and write rates of the storage that the runs use."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.machine.ceilings.measures import report_quietly
from hpcai.machine.ceilings.storage import measure_storage

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
Path(snakemake.output.report).write_text(report_quietly(partial(measure_storage, asked.places), snakemake.config))
