"""The table of verdicts: the deviations of each benchmark and variant, by level or division."""

from collections.abc import Iterator, Sequence

import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.records.run import RunRecord
from hpcai.rules.table import rules_of
from hpcai.rules.verdict import Finding, Verdict

COLUMNS = columns_of("verdicts")
NOTHING = "no deviation found in the records"
NONE_DEVIATES = Message("verdicts.none_deviates", "no run deviates")
SOME_DEVIATE = Message("verdicts.some_deviate", "not valid: {deviating} of {n} runs deviate")
FLAG = "permitted, must be disclosed"


def summarise_verdicts(records: Sequence[RunRecord]) -> pd.DataFrame:
    """Return one row per benchmark, variant, level or division, and deviation or flag.

    Parameters
    ----------
    records
        Runs of any outcome; runs that were never judged count in no row.

    Returns
    -------
    pandas.DataFrame
        ``n_valid`` of ``n`` runs of a benchmark and variant comply with all rules of the level; ``n_found`` of them
        have the finding of the row. ``verdict`` gives the conclusion in words. A level without findings has one row
        that states so.
    """
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        if record.verdicts:
            groups.setdefault(tuple(getattr(record.plan.point, name) for name in SERIES), []).append(record)
    rows = [row for key, runs in sorted(groups.items()) for row in _rows(dict(zip(SERIES, key, strict=True)), runs)]
    return pd.DataFrame.from_records(rows, columns=list(COLUMNS))


def _rows(key: dict[str, str], runs: Sequence[RunRecord]) -> Iterator[dict[str, object]]:
    rules = rules_of(runs[0].plan.benchmark.suite)
    for level, name in rules.levels.items():
        verdicts = [verdict for run in runs for verdict in run.verdicts if verdict.level == level]
        n_valid = sum(verdict.valid for verdict in verdicts)
        about = {
            **key,
            "suite": rules.title,
            "level": name,
            "verdict": _words(n_valid, len(verdicts)),
            "n_valid": n_valid,
            "n": len(verdicts),
        }
        found = _count_findings(verdicts)
        for (kind, finding), count in found.items():
            yield about | {
                "kind": kind,
                "finding": finding.sentence,
                "n_found": count,
                "rule": finding.rule,
                "section": finding.section,
            }
        if not found:
            yield about | {"kind": "", "finding": NOTHING, "n_found": 0, "rule": "", "section": ""}


def _count_findings(verdicts: Sequence[Verdict]) -> dict[tuple[str, Finding], int]:
    """Return the number of runs with each finding, in the order of the rules."""
    counts: dict[tuple[str, Finding], int] = {}
    for verdict in verdicts:
        for kind, findings in (("deviation", verdict.deviations), (FLAG, verdict.flags)):
            for finding in findings:
                counts[kind, finding] = counts.get((kind, finding), 0) + 1
    return counts


def _words(n_valid: int, n: int) -> str:
    if n_valid == n:
        return NONE_DEVIATES()
    return "not valid" if n_valid == 0 else SOME_DEVIATE(deviating=n - n_valid, n=n)
