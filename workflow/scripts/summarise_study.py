"""Write what the report's texts say of the study."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hpcai.logs import log_to
from hpcai.tables import read_records, summarise_study

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

log_to(snakemake.log[0])
summary = summarise_study(
    pd.read_parquet(snakemake.input.runs),
    pd.read_parquet(snakemake.input.scales),
    read_records(snakemake.input.records),
    title=snakemake.params.title,
)
Path(snakemake.output.summary).write_text(json.dumps(summary, indent=1))
