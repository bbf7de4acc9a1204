"""Make the tables of scores, ranking, rooflines, scaling and comparison with earlier studies, and their summary."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.compare.expected import device_of_study, expected_ranges, read_elsewhere
from hpcai.compare.tables import comparison_tables
from hpcai.config.machine import Machine
from hpcai.config.published import load_published
from hpcai.core.files import write_atomically
from hpcai.core.logs import log_to
from hpcai.core.table_files import read_parquet
from hpcai.machine.overview import machine_overview
from hpcai.metrics.run_tables import read_records, rows_as_json, write_tables
from hpcai.metrics.study_tables import ranking_tables, roofline_tables, scaling_tables, score_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
given = snakemake.input
machine = Machine.model_validate(snakemake.params.machine)
published = [load_published(Path(path)) for path in given.published]
views = {Path(path).stem: read_parquet(path) for path in given.views}
records = read_records(given.records)
tables = score_tables(views, records, machine)
elsewhere = read_elsewhere(snakemake.params.others)
tables["expected_ranges"] = expected_ranges(tables["scores"], device_of_study(records), elsewhere)
views |= tables
tables |= roofline_tables(views, published, machine)
tables |= scaling_tables(views, machine)
tables["machine_overview"] = machine_overview(views, given.hpl, snakemake.params.hpl_outputs)
tables |= ranking_tables([tables["scores"], *map(read_parquet, given.others)], published)
results = Path(snakemake.output.summary).parent
write_tables(tables, results / "tables")
# Comparison of studies reads results folders, including this one.
compared = comparison_tables(snakemake.params.earlier, results)
write_tables(compared, results / "tables")
files = [results / "tables" / f"{name}.parquet" for name in [*tables, *compared]]
write_atomically(Path(snakemake.output.summary), rows_as_json(files))
