"""Text summary of an import of published results."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound


def summarise_import(checked: "CheckedRound", tables: Mapping[str, "pd.DataFrame"]) -> Sequence[str]:
    """Summarise the import of one round: its content, what was normalised, and which results lack a score and why."""
    import pandas as pd

    name = checked.round.name
    own = {key: table[table["origin"] == name] for key, table in tables.items() if "origin" in table}
    runs, scores, weak, repairs = (own[key] for key in ("mlperf_runs", "scores", "mlperf_weak", "mlperf_repairs"))
    complying = int(runs["complies"].eq(other=True).sum())
    unknown = int((runs["scaling"] == "strong").sum()) - int((tables["runs"]["study"] == name).sum())
    without = [row for row in scores.to_dict("records") if pd.isna(row["time_to_train_s"])]
    weak_without = [row for row in weak.to_dict("records") if pd.isna(row["time_to_train_all_s"])]
    return [
        f"{name}: {checked.round.source}",
        f"  rules        {checked.choice.rule_set}: {checked.choice.reason}",
        f"  submissions  {len(scores)} strong, {len(weak)} weak; {len(checked.round.systems)} system files",
        f"  logs         {len(runs)}, of which {complying} comply",
        f"  repairs      {len(repairs)}",
        *(f"    {kind}: {count}" for kind, count in repairs["kind"].value_counts().items()),
        f"  scores       {len(scores) - len(without)} of {len(scores)} have a time to train, "
        f"{len(weak) - len(weak_without)} of {len(weak)} a time to train all",
        *(f"    {row['result']}: {_first(row)}" for row in without),
        *(f"    {row['submission']} {row['benchmark']}, weak: {_first(row)}" for row in weak_without),
        *([f"  not in table runs: {unknown} logs of machines whose nodes and units no file tells"] if unknown else []),
    ]


def _first(row: Mapping[Any, Any]) -> str:
    return str(row["reason"]).split("; ", maxsplit=1)[0]
