"""Records to tables: runs, epochs, verdicts, scales, scaling and use of resources, and the summary of the study."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.campaign.efficiency import efficiency_table
from hpcai.files import write_atomically
from hpcai.logs import log_to
from hpcai.metrics.contention import tell_contention
from hpcai.tables import (
    collect_epochs,
    collect_runs,
    collect_verdicts,
    compute_scaling,
    read_groups,
    read_records,
    summarise_scales,
    summarise_study,
    write_tables,
)

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
records, groups = snakemake.input.records, snakemake.input.groups
runs = collect_runs(records)
scales = summarise_scales(runs)
tables = {
    "runs": runs,
    "epochs": collect_epochs(records),
    "verdicts": collect_verdicts(records),
    "scales": scales,
    "scaling": compute_scaling(runs),
    "contention": tell_contention(read_groups(groups), scales),
    "efficiency": efficiency_table([*records, *groups]),
}
summary = summarise_study(runs, scales, read_records(records), title=snakemake.params.title)
write_tables(tables, Path(snakemake.output.summary).parent / "tables")
write_atomically(Path(snakemake.output.summary), json.dumps(summary, indent=1).encode())
