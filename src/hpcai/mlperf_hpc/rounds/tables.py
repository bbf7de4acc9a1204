"""Table of all irregularities of imported rounds."""

from collections.abc import Iterable

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.rounds.model import Round

REPAIR_COLUMNS = columns_of("mlperf_repairs")
"""origin is the round; the other columns come from :class:`hpcai.mlperf_hpc.rounds.model.Repair`."""


def repair_table(rounds: Iterable[Round]) -> pd.DataFrame:
    """Return one row per irregularity: first those of each round's tree and submissions, then those of its logs."""
    rows: list[tuple[str, ...]] = []
    for one in rounds:
        runs = [run for submission in one.submissions for run in (*submission.runs, *submission.pruned)]
        repairs = (*one.repairs, *(repair for run in runs for repair in run.repairs))
        rows += [(one.name, item.source, item.place, item.kind, item.found, item.done) for item in repairs]
    return pd.DataFrame(rows, columns=list(REPAIR_COLUMNS), dtype="str")
