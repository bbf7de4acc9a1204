"""Measure random cases of the kernels of one family on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.table_files import write_parquet
from hpcai.machine.kernels.times import measure_kernels
from hpcai.measure.container import contained_python

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
asked = snakemake.params
python = contained_python(asked.get("software"))
# The draft is not an output, because Snakemake removes outputs of interrupted jobs: the next start continues from it.
draft = Path(asked.draft)
times = measure_kernels(asked.family, asked.samples, asked.seed, draft, passes=asked.passes, python=python)
write_parquet(times, snakemake.output.times)
