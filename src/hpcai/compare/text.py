"""Format comparisons, verdicts and histories as text for a terminal."""

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import pandas as pd

from hpcai.catalogue.points import SERIES, label_of
from hpcai.compare.changes import CATEGORIES
from hpcai.compare.comparison import Comparison, Side
from hpcai.compare.measures import BY_NAME, HEADLINES
from hpcai.compare.scores import FINDINGS, count_tested
from hpcai.compare.verdict import VERDICTS, Regression
from hpcai.core.messages import Message
from hpcai.core.text import DASH, say_change, say_count, say_share, say_value
from hpcai.core.text_table import WIDTH, say_table
from hpcai.metrics.statistics.summaries import is_range

MOST_ROWS = 40
"""Rows of a table that fit on a few screens."""
LONGEST_CELL = 44
LARGEST = 10.0
"""If only changes beyond this ratio could be detected, their size is omitted: results never differ by that much."""
NOTABLE = ("worse", "different", "better", "not comparable")
SAME_RUNS = Message("text.same_runs", "both contain exactly the same runs")
SAME_STARTS = Message(
    "text.same_starts", "both contain runs with the same ids and start times, but with different values"
)
VERDICT = Message("text.verdict", "verdict: {verdict} ({counts}; tolerance {tolerance})")
VERDICT_LOST = Message("text.verdict_lost", "verdict: {verdict} ({counts}; tolerance {tolerance}; {lost})")
NO_HISTORY = Message("text.no_history", "no score was measured in any of these results")
SAME_RECORD = Message("text.same_record", "no recorded difference other than the scores")
OTHER_RECORD = Message("text.other_record", "{count} other than the scores: {categories}; `hpcai compare` lists them")
MORE_ROWS = Message("text.more_rows", "… {left} more without a finding; --all shows them")
TOO_FEW_RUNS = Message("text.too_few_runs", "with so few runs, changes below {limit} are not reliably detected.")
RANGE = "(range)"
INTERVAL_OR_RANGE = "95 % interval or range"
"""Bounds of fewer runs than an interval needs are their range, and are marked so."""
_DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b")


def say_comparison(comparison: Comparison, *, everything: bool = False) -> str:
    """Return the changes between two results: settings first, then scores, the most important rows on top.

    Parameters
    ----------
    comparison
        The comparison of two results.
    everything
        Show all scores, not only the first :data:`MOST_ROWS`.
    """
    changes, scores = comparison.changes, comparison.scores
    alone = scores[scores["measure"] == ""]
    compared = scores[scores["measure"] != ""]
    parts = [
        _say_sides(comparison),
        f"Besides the scores: {say_count(len(changes), 'difference')}",
        _say_changes(changes),
        f"Scores: {_count_findings(compared)}",
        _say_scores(compared, everything=everything),
        "\n".join(f"not compared: {_label(row)}: {row['note']}" for row in alone.to_dict("records")),
        _how(compared),
    ]
    return "\n\n".join(filter(None, parts))


def say_regression(regression: Regression) -> str:
    """Return a verdict with its reasons, most severe points first, and the verdict itself as the last line."""
    order = {name: number for number, name in enumerate(VERDICTS)}
    points = regression.points.sort_values("verdict", key=lambda names: names.map(order), kind="stable")
    rows = [(row["verdict"], _label(row)) for row in points.to_dict("records")]
    blocks = []
    for (verdict, label), row in zip(rows, points.to_dict("records"), strict=True):
        lines = [f"{verdict}: {label}", *(f"    {reason}" for reason in str(row["reason"]).split("; ") if reason)]
        blocks.append("\n".join([*lines, *([f"    also: {row['remark']}"] if row["remark"] else [])]))
    tolerance = say_share(regression.tolerance_ratio)
    counts = ", ".join(f"{count} {name}" for name, count in points["verdict"].value_counts().items())
    facts = {"verdict": regression.verdict, "counts": counts or "no points", "tolerance": tolerance}
    lost = say_count(regression.lost_points, "lost point")
    last = VERDICT_LOST(**facts, lost=lost) if regression.lost_points else VERDICT(**facts)
    about = f"{_say_sides(regression.comparison)}\n{_count_changes(regression.comparison.changes)}"
    return "\n\n".join([about, "\n".join(blocks), last])


def say_history(history: pd.DataFrame) -> str:
    """Return a history, one line per result, point and measure."""
    if history.empty:
        return NO_HISTORY()
    results = history.drop_duplicates("number").sort_values("number")
    lines = [
        f"{row.number}  {row.folder}  {row.started_utc}  commit {shorten(str(row.commit)) or 'unknown'}"
        for row in results.itertuples()
    ]
    blocks = ["\n".join(lines)]
    for _, part in history.groupby([*SERIES, "ranks", "scale", "measure"], sort=False):
        first = part.iloc[0].to_dict()
        rows = [_history_cells(row) for row in part.to_dict("records")]
        heads = ("result", "value", INTERVAL_OR_RANGE, "n", "to previous", "to best", "verdict")
        remarks = [f"result {row['number']}: {row['remark']}" for row in part.to_dict("records") if row["remark"]]
        blocks.append(
            "\n".join(
                [f"{_label(first)}: {_words(first)}", say_table(heads, rows, kinds="nnwnnnk", indent=2), *remarks]
            )
        )
    return "\n\n".join(blocks)


def shorten(text: str) -> str:
    """Return a text with commits and digests shortened to twelve digits."""
    return _DIGEST.sub(lambda found: found.group()[:12], text)


def _say_sides(comparison: Comparison) -> str:
    lines = [_side("base", comparison.base), _side("new ", comparison.new)]
    if comparison.same_runs:
        lines.append(SAME_RUNS())
    elif comparison.same_starts:
        lines.append(SAME_STARTS())
    return "\n".join(lines)


def _side(name: str, side: Side) -> str:
    first = f", first run {side.first_start_utc}" if side.first_start_utc else ""
    commit = f", commit {shorten(side.commits)}" if side.commits else ", commit unknown"
    return f"{name}  {side.folder}: study {side.name}, {say_count(side.runs, 'run')}{first}{commit}"


def _count_changes(changes: pd.DataFrame) -> str:
    if changes.empty:
        return SAME_RECORD()
    counts = changes["category"].value_counts()
    words = ", ".join(f"{name} {counts[name]}" for name in CATEGORIES if name in counts)
    return OTHER_RECORD(count=say_count(len(changes), "difference"), categories=words)


def _say_changes(changes: pd.DataFrame) -> str:
    if changes.empty:
        return "  no recorded difference"
    rows = [
        [_cut(row["category"]), _cut(row["key"]), *(_cut(shorten(row[name])) for name in ("before", "after")),
         _cut(row["where"] or "everywhere")]
        for row in changes.to_dict("records")
    ]  # fmt: skip
    return say_table(("category", "key", "before", "after", "where"), rows, kinds="wwwww", indent=2)


def _count_findings(scores: pd.DataFrame) -> str:
    counts = scores["finding"].value_counts()
    return ", ".join(f"{counts[name]} {name}" for name in FINDINGS if name in counts) or "none to compare"


def _say_scores(scores: pd.DataFrame, *, everything: bool) -> str:
    if scores.empty:
        return ""
    least = int(scores["finding"].isin(NOTABLE).sum())
    shown = scores if everything else scores.head(max(MOST_ROWS, least))
    heads = ("score", "before", "after", "change", "95 % interval", "n", "p")
    rows: list[Sequence[str] | str] = []
    for (finding, *_), part in shown.groupby(["finding", *SERIES, "ranks", "scale"], sort=False):
        records = part.to_dict("records")
        rows += [f"{finding}: {_label(records[0])}", *map(_score_cells, records)]
    table = say_table(heads, rows, indent=2)
    left = len(scores) - len(shown)
    return table + (f"\n  {MORE_ROWS(left=left)}" if left else "")


def _score_cells(row: Mapping[Any, Any]) -> tuple[str, ...]:
    return (
        f"  {_words(row)}",
        say_value(row["base_value"], row["unit"]),
        say_value(row["new_value"], row["unit"]),
        say_change(row["ratio"]) if math.isfinite(row["ratio"]) else DASH,
        _interval(row["low_ratio"], row["high_ratio"]),
        f"{row['n_base']:.0f}, {row['n_new']:.0f}",
        f"{row['p_corrected']:.2g}" if math.isfinite(row["p_corrected"]) else DASH,
    )


def _history_cells(row: Mapping[Any, Any]) -> tuple[str, ...]:
    interval = DASH
    if math.isfinite(row["low"]):
        interval = f"{say_value(row['low'], row['unit'])} to {say_value(row['high'], row['unit'])}"
        interval += f" {RANGE}" if is_range(row["low"], int(row["n"])) else ""
    to_previous, to_best = (row[name] for name in ("ratio_to_previous", "ratio_to_best"))
    return (
        str(row["number"]),
        say_value(row["value"], row["unit"]),
        interval,
        f"{row['n']} of {row['runs']}",
        say_change(to_previous) if math.isfinite(to_previous) else DASH,
        say_change(to_best) if math.isfinite(to_best) else DASH,
        row["verdict"],
    )


def _interval(low: float, high: float) -> str:
    return f"{say_change(low)} to {say_change(high)}" if math.isfinite(low) else DASH


def _how(scores: pd.DataFrame) -> str:
    """Return how scores were tested, if any was, and what could be detected."""
    tested = count_tested(scores)
    words = (
        "Change: ratio of means, its interval by Welch's t. A change is called worse or better if the t test with the "
        "smaller side's degrees of freedom finds it at 5 % after Holm's correction for the "
        f"{say_count(tested, 'score')} tested (column p), and the permutation test at 5 % as well; with "
        f"too few runs for that test, if the values of the two sides do not overlap (assuming a normal distribution)."
    )
    return "\n".join([*([fill(words, WIDTH)] if tested else []), *_say_detectable(scores)])


def _say_detectable(scores: pd.DataFrame) -> list[str]:
    found = scores.loc[scores["measure"].isin(HEADLINES), "detectable_ratio"].dropna()
    if found.empty:
        return []
    limit = say_change(LARGEST)
    what = "Time to train, VFLOPS or throughput:"
    if found.min() >= LARGEST - 1:
        return [fill(f"{what} {TOO_FEW_RUNS(limit=limit)}", WIDTH)]
    least, most = (
        say_change(1 + ratio) if ratio < LARGEST - 1 else f"{limit} or more" for ratio in (found.min(), found.max())
    )
    words = (
        f"{what} with this number of runs and this spread, a change of one score is detected with 80 % probability if "
        f"it is larger than {least} at the steadiest point, {most} at the least steady one (after the correction)."
    )
    return [fill(words, WIDTH)]


def _label(row: Mapping[Any, Any]) -> str:
    return label_of(row)


def _words(row: Mapping[Any, Any]) -> str:
    return BY_NAME[row["measure"]].words


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…"
