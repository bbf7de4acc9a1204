"""Time the fused blocks of the benchmarks and of the reference networks on this machine."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.machine.blocks.times import ask_all, measure_blocks
from hpcai.machine.ceilings.measures import report_quietly
from hpcai.measure.container import contained_python

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
subjects = ask_all(asked.plans, snakemake.input.manifests, asked.networks)
python = contained_python(asked.get("software"))
measure = partial(measure_blocks, subjects, python, samples=asked.samples)
Path(snakemake.output.report).write_text(report_quietly(measure, snakemake.config))
