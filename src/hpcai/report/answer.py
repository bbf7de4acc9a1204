"""The first screen: the main results in one table, and their validity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.core.stalls import say_stall
from hpcai.report.material import Material

TAKEN = (
    "rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", "vflops_flop_per_s",
    "vflops_low_flop_per_s", "vflops_high_flop_per_s", "exponent",
)  # fmt: skip
"""Columns added from the table of scores to those of the table of scales."""
State = Literal["valid", "partly", "invalid", "nothing"]
HEADLINES: Mapping[State, str] = {
    "valid": "Valid results",
    "partly": "Some results are not valid",
    "invalid": "Not valid results",
    "nothing": "Nothing was measured",
}


@dataclass(frozen=True)
class Banner:
    """The verdict on validity: its state, headline and summary sentence."""

    state: State
    headline: str
    sentence: str


def make_answer(material: Material) -> pd.DataFrame:
    """Return one row per benchmark, variant and scale: the table `answer` of the catalogue."""
    scales = material.table("scales")
    if scales.empty:
        return scales
    scales = _without_own_base(scales)
    answer = scales.assign(
        converged=[f"{row.n_ok}/{row.n}" for row in scales.itertuples()],
        base_note=[_say_base(row) for row in scales.to_dict("records")],
        stalled_note=[_say_stalled(row) for row in scales.to_dict("records")],
        machine_note=[_say_machine(row) for row in scales.to_dict("records")],
        valid=[_say_valid(row) for row in scales.to_dict("records")],
        runs_folder=[f"results/runs/{row.benchmark}/{row.variant}/{row.scale}" for row in scales.itertuples()],
    )
    scores = material.table("scores")
    if scores.empty:
        reason = "no table of scores"
        return answer.assign(rate_flop_per_s=float("nan"), vflops_flop_per_s=float("nan"), score_reason=reason)
    measured = scores[scores["method"].eq("measured")].drop_duplicates(POINT)
    exponents = [_say_coefficient(row) for row in measured.to_dict("records")]
    own = measured[[*POINT, *TAKEN]].assign(
        score_n=measured["n_scored"], score_reason=measured["reason"], exponent_note=exponents
    )
    return answer.merge(own, on=POINT, how="left")


def _say_coefficient(row: Mapping[Any, Any]) -> str:
    """Describe the exponent and the effect of quality on the rate: a coefficient far from 1 must be visible."""
    if math.isnan(row["exponent"]):
        return ""
    return f"exponent\u00a0{row['exponent']:g}, ×\u00a0{row['quality_coefficient_ratio']:.3g}"


def make_banner(summary: Mapping[str, Any] | None) -> Banner:
    """Return the verdict on validity of all results of a study."""
    if not summary or not summary["counts"]["runs"]:
        return Banner(
            "nothing", HEADLINES["nothing"], summary["verdict"] if summary else "No run has been analysed yet."
        )
    verdicts: Sequence[Mapping[str, Any]] = summary["verdicts"]
    valid = [bool(verdict["valid"]) for verdict in verdicts]
    state: State = "valid" if all(valid) else "partly" if any(valid) else "invalid"
    return Banner(state, HEADLINES[state], summary["verdict"])


def say_dates(summary: Mapping[str, Any]) -> str:
    """Return the start of the first and of the last run (UTC), with the day once if it is the same."""
    first, last = ((summary["dates"][key] or "").removesuffix("Z").partition("T") for key in ("first_utc", "last_utc"))
    if not first[0]:
        return "no run"
    until = last[2][:5] if last[0] == first[0] else f"{last[0]} {last[2][:5]}"
    return f"{first[0]} {first[2][:5]} to {until} UTC"


def choose_advice(material: Material) -> list[dict[str, Any]]:
    """Return the first advice per benchmark, variant and topic, unless nothing stands out."""
    summary = material.summary or {}
    rows = (summary.get("characterisation") or {}).get("advice") or []
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        first.setdefault((*(row[name] for name in SERIES), row["topic"]), row)
    return [row for row in first.values() if row["sentence"] and not row["sentence"].startswith("Nothing")]


def _without_own_base(scales: pd.DataFrame) -> pd.DataFrame:
    """Return the scales without the efficiencies of variants measured at a single scale, which have no comparison."""
    compared = scales.copy()
    efficiencies = [name for name in scales.columns if str(name).startswith("train_rate_efficiency_")]
    compared.loc[scales.groupby(SERIES)["scale"].transform("nunique") == 1, efficiencies] = math.nan
    return compared


def _say_base(row: Mapping[Any, Any]) -> str:
    """Return the base of an efficiency; a variant measured at a single scale has none."""
    if math.isnan(row["train_rate_efficiency_ratio"]):
        return ""
    return "is the base" if row["scale"] == row["baseline"] else f"base\u00a0{row['baseline']}"


def _say_machine(row: Mapping[Any, Any]) -> str:
    """Describe how many of the runs behind a mean were disturbed or stalled; blank if none was, or it is unknown."""
    count = row.get("n_disturbed", math.nan)
    disturbed = f"disturbed {count:.0f}/{row['rate_n']}" if count > 0 else ""
    return ", ".join(filter(None, [disturbed, _say_stalled(row)]))


def _say_stalled(row: Mapping[Any, Any]) -> str:
    """Describe how many runs behind a mean include a pause, and the longest; blank if none does, or it is unknown."""
    count = row.get("n_stalled", math.nan)
    if not count > 0:
        return ""
    return f"stalled {count:.0f}/{row['rate_n']}: {say_stall(row['stall_max_s'], row['stall_beside_s'])}"


def _say_valid(row: Mapping[Any, Any]) -> str:
    """Return what a result is valid for, or that it is not valid."""
    if row["valid_for"] in {"none", ""}:
        return "no result" if row["no_result"] else "not valid"
    return str(row["valid_for"])
