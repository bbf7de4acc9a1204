"""Rows of the page that stand for many of the files of a round: findings and repairs of one kind."""

from collections.abc import Callable, Mapping

import pandas as pd

FINDING = ["origin", "submission", "rule_set", "rule", "key"]
REPAIR = ["origin", "kind"]


def group_findings(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the failures of each submission, one row for each rule and key that they are about.

    Parameters
    ----------
    verdicts
        Table ``mlperf_verdicts``: one row per finding, and one without a rule for each log that complies.

    Returns
    -------
    DataFrame
        ``logs`` is the number of logs; ``message``, ``line`` and ``source`` are of the first one.
    """
    failures = verdicts[verdicts["severity"].eq("failure")]
    grouped = failures.groupby(FINDING, sort=True, dropna=False)
    first = grouped[["message", "line", "source"]].first()
    return first.assign(logs=grouped["source"].nunique()).reset_index()


def group_repairs(repairs: pd.DataFrame) -> pd.DataFrame:
    """Return the repairs of each kind in each round.

    Parameters
    ----------
    repairs
        Table ``mlperf_repairs``.

    Returns
    -------
    DataFrame
        ``repairs`` and ``files`` are numbers; ``found``, ``done`` and ``source`` are of the first one.
    """
    grouped = repairs.groupby(REPAIR, sort=True, dropna=False)
    first = grouped[["found", "done", "source"]].first()
    return first.assign(files=grouped["source"].nunique(), repairs=grouped.size()).reset_index()


def group_origins(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how many results and logs each round has, and how many of the logs are as they should be.

    Pruned instances of weak scaling are logs of the result beside them, no result of their own.

    Parameters
    ----------
    runs
        Table ``mlperf_runs``.
    """
    scaling = runs["scaling"].replace("weak_pruned", "weak")
    named = runs.assign(result=runs["submission"] + " " + runs["benchmark"] + " " + scaling)
    if "rule_set_reason" not in named:
        # Tables of before the reason was a column.
        named["rule_set_reason"] = ""
    grouped = named.groupby(["origin", "method"], sort=True)
    table = grouped.agg(
        results=("result", "nunique"), logs=("source", "size"), complying=("complies", "sum"),
        reaching=("reaches_target", "sum"), repairs=("repairs", "sum"), benchmarks=("benchmark", _list),
        rule_set=("rule_set", _list), rule_set_reason=("rule_set_reason", _list),
    )  # fmt: skip
    return table.reset_index()


def group_fastest(results: pd.DataFrame) -> pd.DataFrame:
    """Return the result with the shortest time by target of each benchmark, round and division.

    Parameters
    ----------
    results
        Table ``mlperf_results``; results without a time are in none of the rows.
    """
    timed = results.dropna(subset=["run_by_target_s"]).sort_values("run_by_target_s", kind="stable")
    fastest = timed.drop_duplicates(["benchmark", "origin", "division"])
    return fastest.sort_values(["benchmark", "origin", "division"], kind="stable", ignore_index=True)


def _list(names: "pd.Series[str]") -> str:
    return ", ".join(sorted({str(name) for name in names if name}))


GROUPS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    one.__name__: one for one in (group_findings, group_repairs, group_origins, group_fastest)
}
"""By the names that the catalogue of tables has for them."""
