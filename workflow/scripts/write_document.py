"""Write the report document of one benchmark of HPC AI500."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.machine import Machine
from hpcai.config.study import Study
from hpcai.core.logs import log_to
from hpcai.report.hpc_ai500.folder import write_document

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
write_document(
    snakemake.wildcards.benchmark,
    [Path(path) for path in snakemake.input.records],
    {name: Path(snakemake.input[name]) for name in ("run_scores", "scores", "links", "link_fits")},
    Machine.model_validate(snakemake.params.machine),
    Path(snakemake.output.manifest).parent,
    Study.model_validate(snakemake.params.study),
)
