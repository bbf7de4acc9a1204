"""Run a real HPL on this machine, and keep its raw output."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.sealed import seal
from hpcai.machine.hpl.run import run_hpl

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
report = Path(snakemake.output.report)
asked, built = snakemake.params, next(iter(snakemake.input), None)
text = run_hpl(asked.tests, report.with_suffix(""), command=asked.command, build=built, repeats=asked.repeats)
report.write_bytes(seal(f"{text}\n".encode()))
