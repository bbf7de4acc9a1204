"""Questions of a reader with five minutes, each with an answer in plain words and a link to its evidence."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.core.messages import Message
from hpcai.core.text import say_count, say_rate, say_share, say_short
from hpcai.metrics.roofline.columns import CEILING, GEMM, MEMORY, ROOF
from hpcai.report.material import Material

MANY = 3
"""Number of names or reasons in a sentence; the table behind it has the others."""
CONTENTION = Message(
    "questions.contention",
    "{instances:.0f} independent trainings of {benchmark} ({variant}) at the same time each reach {share} of the rate "
    "of one alone",
)
COMMUNICATION = Message(
    "questions.communication",
    "communication takes {loss} of that from one training on all their ranks, with the same batch per rank",
)
NOT_SEPARATED = Message("questions.not_separated", "the further loss of one training on all their ranks is {reason}")
FASTER = Message(
    "questions.faster",
    "{benchmark} with {link} × {gain:.3f} at {scale} of {variant} ({rate} instead of {measured} samples/s, {bounds})",
)
NONE_FASTER = Message("questions.none_faster", "none of the links asked for is faster")
_RESULT = ["origin", "machine", "benchmark", "variant", "scale", "result"]
"""Columns that tell published results apart: one is in several lists of the ranking."""
_SAME_RANKS = ["machine", "nodes", "ranks", "precision"]
"""Columns in which a result agrees with its ceilings."""


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes
    ----------
    asked, answer
        The question, and its answer in a few sentences at most.
    anchor, place
        The section of the page with the evidence: its anchor, and its name.
    is_answered
        Whether this study has an answer; if not, ``answer`` names the missing step.
    """

    asked: str
    answer: str
    anchor: str
    place: str
    is_answered: bool = True


def make_questions(material: Material) -> tuple[Question, ...]:
    """Return all questions in order; none if nothing was measured."""
    if material.table("scales").empty:
        return ()
    return tuple(ask(material) for ask in _ALL)


def _say_how_good(material: Material) -> Question:
    asked, place = "How good is this machine?", ("scores", "Scores")
    scores = material.table("scores")
    own = scores[scores["method"].eq("measured")] if "method" in scores else scores
    rates = own.dropna(subset=["rate_flop_per_s"]) if not own.empty else own
    if rates.empty:
        return Question(asked, "No work was counted: `snakemake characterise` counts it.", *place, is_answered=False)
    best = rates.loc[rates.groupby("benchmark")["rate_flop_per_s"].idxmax()].sort_values("rate_flop_per_s")[::-1]
    rate = [
        f"{row['benchmark']} {say_rate(row['rate_flop_per_s'], 'FLOP/s')} ({row['variant']}, {row['scale']})"
        for row in best.to_dict("records")
    ]
    return Question(asked, f"Best of each benchmark: {'; '.join(rate)}.{_say_of_peak(best, material)}", *place)


def _say_of_peak(best: pd.DataFrame, material: Material) -> str:
    """Return the share of the fastest matrix product of the same ranks that the best results of one node reach."""
    ceilings = material.table("roofline_ceilings")
    if ceilings.empty:
        return ""
    accepted = ceilings["method"].eq("measured") & ceilings["status"].isin((ROOF, CEILING))
    # Every number of ranks has a row in this scope; those of the links repeat its value.
    products = ceilings[accepted & ceilings["kind"].eq(GEMM) & ceilings["scope"].eq(MEMORY)]
    one_node = best[best["nodes"].eq(1)].to_dict("records")
    fastest = [(row["rate_flop_per_s"], _fastest_product(row, products)) for row in one_node]
    shares = [rate / product for rate, product in fastest if product > 0]
    if not shares:
        return ""
    said = " to ".join(dict.fromkeys(say_share(one) for one in (min(shares), max(shares))))
    return f" On one node that is {said} of its fastest matrix product."


def _fastest_product(result: Mapping[Any, Any], products: pd.DataFrame) -> float:
    """Return the rate of the fastest matrix product of a result's ranks in its precision; NaN if none was measured."""
    same = (products[_SAME_RANKS] == [result[name] for name in _SAME_RANKS]).all(axis=1)
    return float(products.loc[same, "value"].max())


def _say_faster(material: Material) -> Question:
    asked = "Which machine is faster, and by how much?"
    comparison, ranking = material.table("comparison"), material.table("ranking")
    if not comparison.empty:
        found = comparison["finding"].replace("", "not compared").value_counts()
        words = ", ".join(f"{number} {finding}" for finding, number in found.items())
        return Question(asked, f"Scores against the earlier result: {words}.", "comparison", "What changed")
    others = ranking[ranking["method"].ne("measured")] if not ranking.empty else ranking
    placed = ranking[ranking["place"].notna()] if not ranking.empty else ranking
    own = placed[placed["method"].eq("measured")] if not placed.empty else placed
    if own.empty:
        words = "Unknown: no result of this study is comparable with one of another machine."
        known = len(others[_RESULT].drop_duplicates()) if len(others) else 0
        words += f" Published results that are listed: {known}." if known else ""
        words += " `hpcai compare OLD NEW` compares two results folders."
        return Question(asked, words, "ranking", "Ranking", is_answered=False)
    best = [
        f"place {row.place:.0f} in “{row.list}” ({row.ratio_to_first:.3g} of the first)"
        for row in own.sort_values("place").drop_duplicates("list").itertuples()
    ]
    return Question(asked, f"This machine: {_some(best)}.", "ranking", "Ranking")


def _say_significant(material: Material) -> Question:
    asked, place = "Is a difference significant?", ("scaling", "Effect of variants")
    effects = material.table("variant_effects")
    if effects.empty:
        return Question(asked, "No two variants were measured at the same scale.", *place, is_answered=False)
    found = effects["reading"].fillna("").value_counts()
    sure = int(found.get("better", 0) + found.get("worse", 0))
    untold = int(found.get("", 0) + found.get("too few runs", 0))
    words = f"{len(effects)} differences between variants: {sure} significant, {untold} with too few runs to tell"
    rest = len(effects) - sure - untold
    words += f", {rest} not distinguishable." if rest else "."
    return Question(asked, words, *place, is_answered=untold < len(effects))


def _say_how_sure(material: Material) -> Question:
    scales = material.table("scales")
    runs = scales["rate_n"]
    widths = (scales["train_rate_high_samples_per_s"] / scales["train_rate_low_samples_per_s"] - 1) / 2
    words = f"Each number is based on {_span(runs)} run{'' if runs.max() == 1 else 's'}"
    too_few = int((scales["n_counted"] < scales["runs_by_rule"]).sum())
    words += f"; at {too_few} of {len(scales)} scales the rules require more. " if too_few else ". "
    widest = widths.max()
    words += f"The widest interval of a throughput is ± {say_share(widest)}. " if widest > 0 else ""
    disturbed, known = scales["n_disturbed"].sum(), scales["n_disturbed"].notna().any()
    words += f"Disturbed runs: {disturbed:.0f}." if known else "Whether runs were disturbed was not measured."
    return Question("How sure are these numbers?", words, "scores", "Every scale")


def _say_limits(material: Material) -> Question:
    asked, place = "What limits scaling?", ("scaling", "Scaling")
    details = material.table("scaling_details")
    larger = details[details["ranks"] > details["baseline_ranks"]] if not details.empty else details
    larger = larger.dropna(subset=["efficiency_ratio"]) if not larger.empty else larger
    if larger.empty:
        return Question(asked, "No benchmark was measured at two scales.", *place, is_answered=False)
    last = larger.sort_values("ranks").drop_duplicates(SERIES, keep="last")
    worst = last.sort_values("efficiency_ratio")
    said = [_say_kept(row) for row in worst.to_dict("records")]
    return Question(asked, f"Worst first: {_some(said)}.{_say_contention(material)}", *place)


def _say_kept(row: Mapping[Any, Any]) -> str:
    """Describe the efficiency that a benchmark keeps, and the communication share of its steps if known."""
    words = f"{row['benchmark']} ({row['variant']}) keeps {say_share(row['efficiency_ratio'])} at {row['ranks']} ranks"
    share = row["communication_share_ratio"]
    return words if math.isnan(share) else f"{words}, {say_share(share)} of its steps is communication"


def _say_contention(material: Material) -> str:
    """Return what simultaneous trainings lose, and what communication adds where the batch per rank is the same."""
    rows = material.table("contention")
    known = rows.dropna(subset=["contention_ratio"]) if not rows.empty else rows
    return f" {_some(_say_group(row) for row in known.to_dict('records'))}." if len(known) else ""


def _say_group(row: Mapping[Any, Any]) -> str:
    names = {name: row[name] for name in ("instances", "benchmark", "variant")}
    words = CONTENTION(share=say_share(row["contention_ratio"]), **names)
    if row["communication_ratio"] > 0:
        return f"{words}, and {COMMUNICATION(loss=say_share(max(0.0, 1 - row['communication_ratio'])))}"
    return f"{words}, and {NOT_SEPARATED(reason=row['reason'])}" if row["distributed_ratio"] > 0 else words


def _say_valid(material: Material) -> Question:
    verdicts = (material.summary or {}).get("verdicts", ())
    valid = [verdict["benchmark"] for verdict in verdicts if verdict["valid"]]
    words = f"Valid: {', '.join(valid)}." if valid else "For none of them."
    others = len(verdicts) - len(valid)
    words += f" {others} of {len(verdicts)} benchmarks deviate from their suite's rules." if others else ""
    return Question("For which suite are the results valid?", words, "rules", "Rules")


def _say_network(material: Material) -> Question:
    asked, place = "What would a faster network bring?", ("predictions", "Predictions")
    predictions = material.table("predictions")
    asked_for = predictions[predictions["question"].eq("link")] if "question" in predictions else predictions
    rows = asked_for.dropna(subset=["rate_samples_per_s"]) if not asked_for.empty else asked_for
    if rows.empty:
        return Question(asked, "Not predicted: `make predict` measures the required inputs.", *place, is_answered=False)
    gains = _gains(rows, material.table("scales"))
    best = gains[gains["gain"] > 1].drop_duplicates("benchmark")
    words = _some(map(_say_gain, best.to_dict("records"))) if len(best) else NONE_FASTER()
    return Question(asked, f"Modelled: {words}.", *place)


def _gains(predictions: pd.DataFrame, scales: pd.DataFrame) -> pd.DataFrame:
    """Return predictions over other links beside the measured rate that they start from, the largest gain first."""
    measured = scales[[*POINT, "train_rate_samples_per_s"]].rename(columns={"scale": "from_scale"})
    both = predictions.merge(measured, on=[*SERIES, "from_scale"], validate="m:1")
    both["gain"] = both["rate_samples_per_s"] / both["train_rate_samples_per_s"]
    return both.sort_values("gain", ascending=False, kind="stable")


def _say_gain(row: Mapping[Any, Any]) -> str:
    low, high = row["rate_low_samples_per_s"], row["rate_high_samples_per_s"]
    return FASTER(
        **{name: row[name] for name in ("benchmark", "link", "gain", "variant")},
        scale=row["from_scale"],
        rate=say_short(row["rate_samples_per_s"]),
        measured=say_short(row["train_rate_samples_per_s"]),
        bounds=f"{say_short(low)} to {say_short(high)}" if low > 0 else "no interval",
    )


def _say_energy(material: Material) -> Question:
    asked, place = "How much energy does it take?", ("scores", "Power and energy")
    power = material.table("power")
    if power.empty:
        why = _reasons(material, "power")
        return Question(asked, f"Not measured{f': {why}' if why else ''}.", *place, is_answered=False)
    mean = power["mean_power_w"].dropna() if "mean_power_w" in power else pd.Series(dtype=float)
    average = f", {_span(mean)} W on average" if not mean.empty else ""
    words = f"{say_count(len(power), 'meter')} of profiled runs{average}"
    return Question(asked, f"{words}.", *place)


def _say_broken(material: Material) -> Question:
    counts = (material.summary or {}).get("counts", {})
    troubles = [f"{counts[name]} {words}" for name, words in _OUTCOMES.items() if counts.get(name)]
    words = f"{', '.join(troubles)} of {counts.get('runs', 0)} runs." if troubles else "Nothing: every run converged."
    return Question("What broke?", words, "runs", "Runs")


_OUTCOMES = {
    "failed": "failed",
    "timed_out": "ran into their time limit",
    "diverged": "diverged",
    "not_converged": "missed the target",
}


def _say_reproducible(material: Material) -> Question:
    summary = material.summary or {}
    commits, locks = summary.get("commits", ()), summary.get("locks", ())
    changed = ", with uncommitted changes" if summary.get("dirty") else ""
    words = f"Code: {len(commits)} commit{'' if len(commits) == 1 else 's'}{changed}. "
    words += f"Environment: {'one lock file' if len(locks) == 1 else f'{len(locks)} lock files'}. "
    words += "Every run keeps its plan, seed and raw files, and the commands to repeat it."
    return Question("Can I reproduce it?", words, "provenance", "Provenance")


def _say_unmeasured(material: Material) -> Question:
    asked, place = "What was not measured?", ("runs", "Captures")
    captures, ceilings = material.table("captures"), material.table("ceilings")
    kinds = _missing(captures, "profile") + _missing(ceilings, "kind")
    if captures.empty and ceilings.empty:
        words = "No profile and no ceiling: `snakemake characterise` measures them."
        return Question(asked, words, *place, is_answered=False)
    words = (
        f"{', '.join(kinds)}: {_reasons(material, *kinds)}." if kinds else "All profiles and ceilings were measured."
    )
    return Question(asked, words, *place)


def _say_next(material: Material) -> Question:
    asked, place = "What do I run next?", ("provenance", "Provenance")
    scales = material.table("scales")
    counts = (material.summary or {}).get("counts", {})
    if counts.get("failed") or counts.get("timed_out"):
        return Question(asked, "`hpcai doctor` says why runs failed; `hpcai retry` tries them again.", "runs", "Runs")
    few = scales[scales["n_counted"] < scales["runs_by_rule"]]
    if not few.empty:
        most = int(few["runs_by_rule"].max())
        words = f"More repetitions: the rules require up to {most} runs (column `repeats` of the run table)."
        return Question(asked, words, *place)
    if material.table("predictions").empty:
        return Question(asked, "`make predict`: the effect of other scales and links.", "predictions", "Predictions")
    return Question(asked, "`hpcai compare` with another machine's results folder.", *place)


# The template shows the first four on the first screen: how good, compared with what, how sure, and what limits it.
_ALL: tuple[Callable[[Material], Question], ...] = (
    _say_how_good,
    _say_faster,
    _say_how_sure,
    _say_limits,
    _say_significant,
    _say_valid,
    _say_network,
    _say_energy,
    _say_broken,
    _say_reproducible,
    _say_unmeasured,
    _say_next,
)


def _missing(table: pd.DataFrame, column: str) -> list[str]:
    """Return the kinds without any measurement."""
    if table.empty:
        return []
    measured = set(table.loc[table["status"].eq("measured"), column])
    return [kind for kind in dict.fromkeys(table[column]) if kind not in measured]


def _reasons(material: Material, *kinds: str) -> str:
    """Return why nothing was measured of these kinds, each reason once."""
    rows = [
        reason
        for table, column in ((material.table("captures"), "profile"), (material.table("ceilings"), "kind"))
        if not table.empty
        for reason in table.loc[table[column].isin(kinds) & table["status"].ne("measured"), "reason"]
    ]
    return _some(dict.fromkeys(filter(None, rows)))


def _some(parts: Iterable[str]) -> str:
    known: Sequence[str] = list(parts)
    rest = len(known) - MANY
    return "; ".join(known[:MANY]) + (f"; and {rest} more" if rest > 0 else "")


def _span(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
