"""Rank the results of this study, of others and the published ones, like with like."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.config.published import load_published
from hpcai.logs import log_to
from hpcai.metrics.declared import declared_scores
from hpcai.metrics.declared_checks import check_declared
from hpcai.metrics.ranking import rank_results
from hpcai.tables import join_tables, write_tables

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
published = [load_published(Path(path)) for path in snakemake.input.published]
scores = join_tables([pd.read_parquet(path) for path in snakemake.input.scores])
declared = join_tables([scores.head(0), *map(declared_scores, published)])
checks = join_tables([check_declared(one) for one in published])
tables = {"declared": declared, "declared_checks": checks, "ranking": rank_results(join_tables([scores, declared]))}
write_tables(tables, Path(snakemake.output[0]).parent)
