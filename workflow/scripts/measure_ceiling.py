"""Measure one ceiling of this machine, an upper limit for training in one respect."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.machine.ceilings.measures import ceiling, report_quietly
from hpcai.measure.container import contained_python

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
measure = ceiling(asked.what, asked.threads, asked.device, partial(contained_python, asked.get("software")))
Path(snakemake.output.report).write_text(report_quietly(measure, snakemake.config))
