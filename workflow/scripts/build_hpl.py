"""Compile HPL from the source that the machine file names."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.logs import log_to
from hpcai.core.sealed import seal
from hpcai.machine.hpl.build import build_hpl

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
report, asked = Path(snakemake.output.report), snakemake.params
text = build_hpl(asked.source, report.with_suffix("").resolve(), asked.sha256)
report.write_bytes(seal(f"{text}\n".encode()))
