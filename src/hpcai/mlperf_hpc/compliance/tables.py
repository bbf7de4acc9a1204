"""Verdicts of logs as a table."""

from collections.abc import Iterable

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound

VERDICT_COLUMNS = columns_of("mlperf_verdicts")
"""Columns of the table ``mlperf_verdicts``."""


def verdict_table(rounds: Iterable[CheckedRound]) -> pd.DataFrame:
    """Return one row per finding of a log; logs without findings get one row with a blank rule.

    Returns
    -------
    pandas.DataFrame
        ``VERDICT_COLUMNS``; the line is missing (NA) where a finding has no single line.
    """
    rows = [row for checked in rounds for row in _rows(checked)]
    table = pd.DataFrame(rows, columns=list(VERDICT_COLUMNS))
    return table.astype({"line": "Int64", "complies": bool})


def _rows(checked: CheckedRound) -> Iterable[tuple[object, ...]]:
    names = {
        run.source: submission.name
        for submission in checked.round.submissions
        for run in (*submission.runs, *submission.pruned)
    }
    for source, verdict in sorted(checked.verdicts.items()):
        log = checked.round.name, names.get(source, ""), source, verdict.rule_set, verdict.complies
        for finding in verdict.findings:
            yield (*log, finding.line, finding.key, finding.rule, finding.message, finding.severity)
        if not verdict.findings:
            yield (*log, None, "", "", "", "")
