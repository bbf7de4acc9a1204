"""Answer questions about future rounds: lines to print, plain values, and intervals to plot."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.core.text import say_duration, say_share, say_short
from hpcai.mlperf_hpc.analysis.accelerators import find_accelerator, read_accelerators
from hpcai.mlperf_hpc.analysis.backtest import LEAST_COVERAGE_RATIO, MOST_FACTOR, backtest, summarise_backtest
from hpcai.mlperf_hpc.analysis.forecast import Forecast, Past, look_back, read_target, references_before
from hpcai.mlperf_hpc.analysis.prediction import Configuration
from hpcai.mlperf_hpc.analysis.prediction_points import point_sets
from hpcai.mlperf_hpc.analysis.prediction_tables import configure, prediction_row
from hpcai.mlperf_hpc.analysis.prediction_text import plain_values, read_unchecked, say_predictions
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED
from hpcai.mlperf_hpc.analysis.system_families import system_table
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table

SCALES = tuple(2**power for power in range(18))
"""Numbers of units that inverse questions search."""
J_PER_KWH = 3.6e6
NO_MACHINE = Message(
    "forecast.no_machine",
    "--system: found none, expected a submission on the machine, --accelerator for one without submissions, or "
    "--within to compare all machines",
)
UNKNOWN_SYSTEM = Message(
    "forecast.unknown_system", "--system: found {found!r}, expected a submission before {target}: {known}"
)
REFUSED = Message("forecast.refused", "{machine}: cannot be predicted in round {target}: {reason}")
ENERGY_NOT_KNOWN = Message("forecast.energy_not_known", "energy: not known; --unit-power gives the power of a unit")
ERROR_NOT_KNOWN = Message(
    "forecast.error_not_known",
    "error: not known, because no round of the sources before {target} has earlier ones to be predicted from",
)

Tables = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class ForecastQuestion:
    """A question about a later round.

    Attributes
    ----------
    sources, benchmark, round
        Rounds to learn from, one of their benchmarks, and the target round, by name or as YYYY-MM.
    system, accelerator
        A submission on the machine, or a model with published rates; neither: all machines.
    units, batch
        Configuration; None: powers of two, and the family's samples per unit.
    within_s
        Time to solution to reach [s]; None for no limit.
    unit_power_w
        Power of one unit with its share of the node [W]; None if unknown.
    """

    sources: Sequence[Path]
    benchmark: str
    round: str
    system: str | None = None
    accelerator: str | None = None
    units: int | None = None
    batch: int | None = None
    within_s: float | None = None
    unit_power_w: float | None = None


@dataclass(frozen=True)
class Answer:
    """Lines to print, values for JSON, and the table that :mod:`hpcai.plots.rounds.forecast` draws."""

    lines: Sequence[str]
    plain: Mapping[str, Any]
    intervals: pd.DataFrame


def answer_question(question: ForecastQuestion) -> Answer:
    """Predict a machine in a later round, or list the machines that reach a given time there.

    Raises
    ------
    ConfigError
        If the round, benchmark, system or accelerator is unknown, or nothing can be predicted.
    """
    target = read_target(question.round)
    machine = ("", find_accelerator(question.accelerator)) if question.accelerator else None
    if machine is None and question.system is None and question.within_s is None:
        raise ConfigError(NO_MACHINE())
    tables = read_tables(question.sources)
    past = look_back(list(point_sets(*tables, references_before(target), joined=True)), target)
    forecast = past.forecast(question.benchmark)
    if question.system:
        machine = _find_machine(past, question.system)
    machines = [machine] if machine else _all_machines(past)
    rows = [row for one in machines for row in _rows(forecast, question, *one)]
    if question.within_s is None:
        said = _say_machine(rows, question)
    else:
        said = _say_reached(rows, question, question.within_s)
    cases = _cases_before(tables, past)
    lines = [*said, *_say_energy(rows, question), *say_choice(past), *_say_errors(cases, past)]
    found = {
        "question": {"round": target.name, "within_s": question.within_s, "unit_power_w": question.unit_power_w},
        "predictions": rows,
        "reached": _reached(rows, question.within_s) if question.within_s else None,
        "backtest": summarise_backtest(cases) if len(cases) else None,
        "ageing": _plain_choice(past),
    }
    return Answer(lines, plain_values(found), _intervals(rows))


def answer_backtest(sources: Sequence[Path], names: Sequence[str]) -> Answer:
    """Predict all new submissions of rounds from the rounds before each, and report the error.

    The lines form a page of Markdown, which is part of the documentation.

    Raises
    ------
    ConfigError
        If a round is unknown or has no new submission, or no source precedes it.
    """
    cases, pasts = backtest(*read_tables(sources), names)
    lines = [line for past in pasts for line in _say_cases(cases[cases["round"] == past.target.name], past)]
    if len(pasts) > 1:
        lines += ["", f"All rounds: {_say_summary(summarise_backtest(cases))}"]
    summaries = {past.target.name: summarise_backtest(cases[cases["round"] == past.target.name]) for past in pasts}
    found = {
        "cases": cases.to_dict("records"),
        "rounds": summaries,
        "all": summarise_backtest(cases),
        "ageing": {past.target.name: _plain_choice(past) for past in pasts},
    }
    known = cases[cases["reason"] == ""]
    drawn = known.assign(label=known["round"] + " " + known["benchmark"] + " " + known["submission"]).rename(
        columns={"run_low_s": "low_s", "run_predicted_s": "middle_s", "run_high_s": "high_s"}
    )
    return Answer(lines, plain_values(found), drawn[["label", "low_s", "middle_s", "high_s", "run_s"]])


def read_tables(sources: Sequence[Path]) -> Tables:
    """Return the results and systems of the rounds."""
    rounds = read_unchecked(sources)
    return result_table(run_table(rounds)), system_table(one.round for one in rounds)


def say_choice(past: Past) -> Iterator[str]:
    """Describe the software ageing that the earlier rounds selected."""
    choice, rounds = past.choice, sorted(set(past.rows["round"]))
    if not choice.scores:
        yield f"ageing of software: all priors weigh the same, because {', '.join(rounds)} cannot test them"
        return
    weighed = sorted(zip(choice.weights, choice.candidates, choice.scores, strict=True), key=lambda one: -one[0])
    said = [f"{prior.law} {prior.rate:g} ± {prior.deviation:g} ({say_share(weight)})"
            for weight, prior, _ in weighed if weight >= 0.05]  # fmt: skip
    yield (
        f"ageing of software, law and log rate a year or doubling of age (weight), as leave-one-round-out on "
        f"{', '.join(rounds)} weighs them: {', '.join(said)}"
    )


def _find_machine(past: Past, system: str) -> tuple[str, str]:
    rows = pd.concat([points.submissions for points in past.sets], ignore_index=True)
    own = rows[rows["submission"] == system]
    if own.empty:
        known = ", ".join(sorted(rows["submission"].astype(str).unique()))
        raise ConfigError(UNKNOWN_SYSTEM(found=system, target=past.target.name, known=known))
    return str(own["org"].iloc[0]), str(own["family"].iloc[0])


def _all_machines(past: Past) -> list[tuple[str, str]]:
    """Return each machine of earlier rounds in its latest spelling, and each accelerator without a submission."""
    rows = pd.concat([points.usable for points in past.sets], ignore_index=True)
    last = rows.sort_values("origin", kind="stable").drop_duplicates("machine", keep="last")
    own = list(zip(last["org"].astype(str), last["family"].astype(str), strict=True))
    return [*own, *(("", name) for name in read_accelerators() if name not in set(rows["family"]))]


def _rows(forecast: Forecast, question: ForecastQuestion, organisation: str, family: str) -> list[dict[str, Any]]:
    if question.units is None:
        wanted = [configure(forecast.points, organisation, family, units) for units in SCALES]
    elif question.batch is None:
        wanted = [configure(forecast.points, organisation, family, question.units)]
    else:
        wanted = [Configuration(organisation, family, question.units, question.batch)]
    rows = [_row(forecast, one, question.unit_power_w) for one in wanted]
    known = [row for row in rows if not row["reason"]]
    return known or rows[:1]


def _row(forecast: Forecast, wanted: Configuration, unit_power_w: float | None) -> dict[str, Any]:
    row = prediction_row(forecast.points, forecast.predict(wanted))
    power_w = math.nan if unit_power_w is None else unit_power_w * wanted.units
    energies = {f"energy{side}_j": power_w * row[f"run{side}_s"] for side in ("", "_low", "_high")}
    return row | energies | {"round": forecast.target.name, "machine": f"{wanted.organisation} {wanted.family}".strip()}


def _say_machine(rows: Sequence[dict[str, Any]], question: ForecastQuestion) -> list[str]:
    if all(row["reason"] for row in rows):
        first = rows[0]
        raise ConfigError(REFUSED(machine=first["machine"], target=first["round"], reason=first["reason"]))
    when = f" in round {rows[0]['round']}"
    return say_predictions(rows, one=question.units is not None, when=when)


def _reached(rows: Sequence[dict[str, Any]], within_s: float) -> list[dict[str, Any]]:
    """Return, per machine, the fewest units whose median, and whose upper bound, is within a time.

    ``fewer_may_do`` marks a number of units that is the smallest predictable one.
    """
    found = []
    for machine in dict.fromkeys(row["machine"] for row in rows):
        own = [row for row in rows if row["machine"] == machine and not row["reason"]]
        likely = next((row for row in own if row["run_s"] <= within_s), None)
        surely = next((row for row in own if row["run_high_s"] <= within_s), None)
        fastest = min(own, key=lambda row: row["run_s"], default=None)
        reason = next((row["reason"] for row in rows if row["machine"] == machine), "")
        found.append(
            {
                "machine": machine,
                "units": likely and likely["units"],
                "fewer_may_do": likely is not None and likely is own[0],
                "units_for_upper_bound": surely and surely["units"],
                "run_s": likely and likely["run_s"],
                "run_low_s": likely and likely["run_low_s"],
                "run_high_s": likely and likely["run_high_s"],
                "energy_j": likely and likely["energy_j"],
                "fastest_s": fastest and fastest["run_s"],
                "reason": "" if own else reason,
            }
        )
    return found


def _say_reached(rows: Sequence[dict[str, Any]], question: ForecastQuestion, within_s: float) -> list[str]:
    level = say_share(rows[0]["level_ratio"])
    lines = [
        f"{question.benchmark} in round {rows[0]['round']} within {say_duration(within_s)}: fewest units by the "
        f"median, and by the upper bound of the interval of {level}; powers of two:",
        f"{'machine':32}{'units':>8}{'upper':>8}{'time [s]':>10}{'interval [s]':>20}",
    ]
    found = _reached(rows, within_s)
    for row in sorted(found, key=lambda row: row["units"] or math.inf):
        if row["units"] is None:
            why = row["reason"] or f"not reached; fastest {say_short(row['fastest_s'])} s"
            lines.append(f"{row['machine']:32}  {why}")
            continue
        interval = f"{say_short(row['run_low_s'])} to {say_short(row['run_high_s'])}"
        surely = row["units_for_upper_bound"] or "-"
        units = f"{'<= ' * row['fewer_may_do']}{row['units']}"
        lines.append(f"{row['machine']:32}{units:>8}{surely:>8}{say_short(row['run_s']):>10}{interval:>20}")
    return lines


def _say_energy(rows: Sequence[dict[str, Any]], question: ForecastQuestion) -> Iterator[str]:
    if question.unit_power_w is None:
        yield ENERGY_NOT_KNOWN()
        return
    shown = rows
    if question.within_s is not None:
        reached = {(one["machine"], one["units"]) for one in _reached(rows, question.within_s)}
        shown = [row for row in rows if (row["machine"], row["units"]) in reached]
    yield f"energy at {question.unit_power_w:g} W a unit (as declared by --unit-power), modelled:"
    for row in shown:
        if not row["reason"]:
            middle, low, high = (say_short(row[f"energy{side}_j"] / J_PER_KWH) for side in ("", "_low", "_high"))
            yield f"  {row['machine']}, {row['units']} units: {middle} kWh, {low} to {high} kWh"


def _cases_before(tables: Tables, past: Past) -> pd.DataFrame:
    """Return the backtest of the earlier rounds, so that answers can quote the error of past forecasts."""
    known = sorted(set(past.rows["round"]), key=lambda name: PUBLISHED[name])
    return backtest(*tables, known[1:])[0] if len(known) > 1 else pd.DataFrame()


def _say_errors(cases: pd.DataFrame, past: Past) -> list[str]:
    """Report the error of forecasts of earlier rounds, round by round, where any could be predicted."""
    parts = (
        [] if cases.empty else [(name, part) for name, part in cases.groupby("round") if (part["reason"] == "").any()]
    )
    if not parts:
        return [ERROR_NOT_KNOWN(target=past.target.name)]
    return [
        f"error of such forecasts of {name} from the rounds before it: {_say_summary(summarise_backtest(part))}"
        for name, part in parts
    ]


def _say_summary(summary: Mapping[str, Any]) -> str:
    if not summary["predicted"]:
        return f"none of {summary['submissions']} submissions could be predicted"
    met = {True: "met", False: "missed"}
    return (
        f"{summary['predicted']} of {summary['submissions']} new submissions predicted; {summary['inside']} inside the "
        f"interval of {say_share(summary['level_ratio'])} ({say_share(summary['coverage_ratio'])}; goal of "
        f"{say_share(LEAST_COVERAGE_RATIO)} {met[summary['coverage_met']]}); off by a factor of "
        f"{summary['median_error_factor']:.2f} in the median (goal of {MOST_FACTOR} {met[summary['factor_met']]}) and "
        f"{summary['largest_error_factor']:.2f} at most; upper over lower bound {summary['median_width_ratio']:.1f} in "
        f"the median, {summary['largest_width_ratio']:.1f} at most"
    )


def _say_cases(cases: pd.DataFrame, past: Past) -> list[str]:
    rounds = ", ".join(sorted(set(past.rows["round"])))
    lines = [
        "",
        f"### {past.target.name} from {rounds}",
        "",
        "| benchmark | submission | units | published [s] | predicted [s] | interval of "
        f"{say_share(summarise_backtest(cases)['level_ratio'])} [s] | width | factor | inside |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_say_case(row) for row in cases.to_dict("records")),
        "",
        f"{_say_summary(summarise_backtest(cases))}.",
    ]
    return [*lines, "", *(f"{line}." for line in say_choice(past))]


def _say_case(row: Mapping[Any, Any]) -> str:
    known = f"| {row['benchmark']} | {row['submission']} | {row['units']} | {say_short(row['run_s'])} |"
    if row["reason"]:
        return f"{known} not predicted | | | | |"
    interval = f"{say_short(row['run_low_s'])} to {say_short(row['run_high_s'])}"
    return (
        f"{known} {say_short(row['run_predicted_s'])} | {interval} | {row['width_ratio']:.1f} | "
        f"{row['error_ratio']:.2f} | {'yes' if row['inside'] else '**no**'} |"
    )


def _plain_choice(past: Past) -> list[dict[str, Any]]:
    scores = past.choice.scores or [math.nan] * len(past.choice.candidates)
    return [
        {"law": prior.law, "rate": prior.rate, "deviation": prior.deviation, "weight": weight, "score": score}
        for prior, weight, score in zip(past.choice.candidates, past.choice.weights, scores, strict=True)
    ]


def _intervals(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    known = [row for row in rows if not row["reason"]]
    return pd.DataFrame(
        {
            "label": [f"{row['machine']}, {row['units']} units" for row in known],
            "low_s": [row["run_low_s"] for row in known],
            "middle_s": [row["run_s"] for row in known],
            "high_s": [row["run_high_s"] for row in known],
            "run_s": [math.nan] * len(known),
        }
    )
