"""The published logs of round v0.7 and the numbers expected of them, from ``shared/data`` (or HPCAI_SHARED_DATA)."""

import csv
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round

SHARED = Path(os.environ.get("HPCAI_SHARED_DATA", Path(__file__).parents[5] / "shared/data"))
EXPECTED = SHARED / "mlperf_hpc_v0.7_expected.csv"
ARCHIVE = SHARED / "mlperf_hpc_v0.7.tar.xz"
ABSENT = f"{EXPECTED.name} is not here: set HPCAI_SHARED_DATA to the folder of the published logs"


class Tables(NamedTuple):
    runs: pd.DataFrame
    results: pd.DataFrame


@cache
def read_published() -> Tables:
    """Return the tables of round v0.7, computed from its logs. Skips the test where the logs are absent."""
    if not ARCHIVE.exists():
        pytest.skip(f"{ARCHIVE.name} is not here: set HPCAI_SHARED_DATA to the folder of the published logs")
    runs = run_table([read_checked_round(ARCHIVE, name="v0.7")])
    return Tables(runs, result_table(runs))


def read_expected() -> list[dict[str, str]]:
    """Return the rows of the expected numbers; none where they are absent."""
    return list(csv.DictReader(EXPECTED.open())) if EXPECTED.exists() else []


def params_of(rows: list[dict[str, str]]) -> list:
    """Return one parameter per row, or a single skipped one where the numbers are absent."""
    named = [pytest.param(row, id=" ".join((row["table"], row["submission"], row["quantity"]))) for row in rows]
    return named or [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=ABSENT))]
