"""Convert records to tables: runs, epochs, verdicts, scales and scaling, and the summary of the study."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.core.files import write_atomically
from hpcai.core.logs import log_to
from hpcai.core.sealed import sealed_json
from hpcai.metrics.run_tables import read_records, run_tables, summarise_study, write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
paths = snakemake.input.records
records = read_records(paths)
gc.freeze()  # they stay to the end: no later search for garbage needs to look through them
tables = run_tables(paths, records)
summary = summarise_study(tables["runs"], tables["scales"], records, title=snakemake.params.title)
write_tables(tables, Path(snakemake.output.summary).parent / "tables")
write_atomically(Path(snakemake.output.summary), sealed_json(summary))
