"""Measure training steps of reference networks on this machine."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.machine.ceilings.measures import report_quietly
from hpcai.machine.kernels.reference_steps import measure_reference_steps
from hpcai.measure.container import contained_python

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
measure = partial(measure_reference_steps, asked.networks, contained_python(asked.get("software")))
Path(snakemake.output.report).write_text(report_quietly(measure, snakemake.config))
