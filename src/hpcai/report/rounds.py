"""Rows of the page that summarise many files of a round: findings and normalised entries of one kind."""

from collections.abc import Callable, Mapping

import pandas as pd

FINDING = ["origin", "submission", "rule_set", "rule", "key"]
REPAIR = ["origin", "kind"]


def group_findings(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the failures of each submission, one row per rule and key.

    Parameters
    ----------
    verdicts
        Table ``mlperf_verdicts``: one row per finding, and one without a rule per complying log.

    Returns
    -------
    DataFrame
        ``logs`` is the number of logs; ``message``, ``line`` and ``source`` come from the first one.
    """
    failures = verdicts[verdicts["severity"].eq("failure")]
    grouped = failures.groupby(FINDING, sort=True, dropna=False)
    first = grouped[["message", "line", "source"]].first()
    return first.assign(logs=grouped["source"].nunique()).reset_index()


def group_repairs(repairs: pd.DataFrame) -> pd.DataFrame:
    """Return the normalised entries of each kind in each round.

    Parameters
    ----------
    repairs
        Table ``mlperf_repairs``.

    Returns
    -------
    DataFrame
        ``repairs`` and ``files`` are counts; ``found``, ``done`` and ``source`` come from the first one.
    """
    grouped = repairs.groupby(REPAIR, sort=True, dropna=False)
    first = grouped[["found", "done", "source"]].first()
    return first.assign(files=grouped["source"].nunique(), repairs=grouped.size()).reset_index()


def group_origins(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the number of results and logs of each round, and of logs without irregularities.

    Pruned instances of weak scaling are logs of their result, not results of their own.

    Parameters
    ----------
    runs
        Table ``mlperf_runs``.
    """
    scaling = runs["scaling"].replace("weak_pruned", "weak")
    named = runs.assign(result=runs["submission"] + " " + runs["benchmark"] + " " + scaling)
    if "rule_set_reason" not in named:
        # Older tables lack the column of reasons.
        named["rule_set_reason"] = ""
    grouped = named.groupby(["origin", "method"], sort=True)
    table = grouped.agg(
        results=("result", "nunique"), logs=("source", "size"), complying=("complies", "sum"),
        reaching=("reaches_target", "sum"), repairs=("repairs", "sum"), benchmarks=("benchmark", _list),
        rule_set=("rule_set", _list), rule_set_reason=("rule_set_reason", _list),
    )  # fmt: skip
    return table.reset_index()


def group_fastest(results: pd.DataFrame) -> pd.DataFrame:
    """Return the result with the shortest time per target for each benchmark, round and division.

    Parameters
    ----------
    results
        Table ``mlperf_results``; results without a time are ignored.
    """
    timed = results.dropna(subset=["run_by_target_s"]).sort_values("run_by_target_s", kind="stable")
    fastest = timed.drop_duplicates(["benchmark", "origin", "division"])
    return fastest.sort_values(["benchmark", "origin", "division"], kind="stable", ignore_index=True)


def _list(names: "pd.Series[str]") -> str:
    return ", ".join(sorted({str(name) for name in names if name}))


GROUPS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    one.__name__: one for one in (group_findings, group_repairs, group_origins, group_fastest)
}
"""Keyed by name in the catalogue of tables."""
