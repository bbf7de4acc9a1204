"""FLOPS and VFLOPS of every timed run, with the throughput, time and quality that they derive from."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.config.benchmark import Suite
from hpcai.config.machine import Machine
from hpcai.core.messages import Message
from hpcai.core.text import say_name
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.columns import OF_THE_RUN, TRIAL_COLUMNS, score_frame
from hpcai.metrics.scores.validity import join_reasons
from hpcai.metrics.scores.vflops import compute_vflops, quality_coefficient, run_rate
from hpcai.rules.table import rules_of

WHOLE_NODES = "slurm"
"""The meter that covers all nodes of a run, with all their components."""
METERS = {"cpu": (("rapl",),), "gpu": (("nvml", "rapl"), ("amd_smi", "rapl"))}
"""Meters of one node that together count what computes; the first one of a group has to be there."""
WHOLE_NODE = ("ipmi", "redfish")
"""The meters that count one node and all that is in it; slow, and therefore asked last."""
NO_POWER = Message("trial_scores.no_power", "no FLOPS per watt: power was neither measured nor declared")
NO_POWER_BUT = Message(
    "trial_scores.no_power_but",
    "no FLOPS per watt: power was neither measured nor declared ({doubts})",
)
DOUBTFUL_POWER = Message("trial_scores.doubtful_power", "power: {doubts}")
METER_STOOD_STILL = Message("trial_scores.meter_stood_still", "{meter} reported {watts:g} W and was ignored")
ERROR_METRIC = Message(
    "trial_scores.error_metric",
    "no VFLOPS: HPC AI500 V2.0 defines none for an error metric ({metric}), for which quality over target would have "
    "to be inverted",
)
OTHER_SUITE = Message(
    "trial_scores.other_suite",
    "no VFLOPS: HPC AI500 V2.0 defines it only for its own workloads, and {suite} does not define it",
)
EARNED_NONE = Message("trial_scores.earned_none", "no score, {outcome}: {reason}")


@dataclass(frozen=True)
class Power:
    """Mean power of all nodes of a scale.

    Attributes
    ----------
    mean_power_w
        NaN if neither measured nor declared.
    method
        "measured", "declared", or blank.
    source
        The meters' raw files, or the source of the declared number.
    reason
        Why power is missing, or what makes a measured value doubtful.
    """

    mean_power_w: float = math.nan
    method: str = ""
    source: str = ""
    reason: str = NO_POWER()


def find_power(power: pd.DataFrame, machine: Machine | None, nodes: int) -> Power:
    """Return the power for the timed runs of a scale.

    Parameters
    ----------
    power
        Rows of the view ``power`` of the same benchmark, variant and scale: training steps of profiled runs only.
    machine
        Devices and declared power; None without a machine file for these runs.
    nodes
        Number of nodes of the scale.

    Returns
    -------
    Power
        Slurm's power of all nodes; on one node else the sum of its meters, on accelerators never without theirs, else
        the power of the node by IPMI, then Redfish; last of all the declared power of a node times the nodes, labelled
        so. HPC AI500 V2.0 does not say how to measure power (benchmarks.md 7.2). A meter that gave no more than 0 W
        stood still: it is left out, and `reason` says so.
    """
    measured = power[power["mean_power_w"] > 0]
    still = _say_still(power[power["mean_power_w"] <= 0])
    meters = {str(name): own for name, own in measured.groupby("instrument", sort=True)}
    if WHOLE_NODES in meters:
        return _measured([meters[WHOLE_NODES]], still)
    # Without a machine file, accelerators, which RAPL does not cover, cannot be ruled out.
    groups = METERS[machine.device.kind if machine is not None else "gpu"]
    wanted = next((group for group in groups if group[0] in meters), groups[0])
    whole = [name for name in WHOLE_NODE if name in meters]
    if wanted[0] in meters and nodes == 1:
        return _measured([meters[name] for name in wanted if name in meters], still)
    if whole and nodes == 1:
        return _measured([meters[whole[0]]], still)
    if machine is not None and machine.power is not None:
        reason = DOUBTFUL_POWER(doubts=", ".join(still)) if still else ""
        return Power(machine.power.node_power_w * nodes, "declared", machine.power.source, reason)
    doubts = [*still, *_doubt(list(meters), wanted[0], nodes)]
    return Power(reason=NO_POWER_BUT(doubts=", ".join(doubts)) if doubts else NO_POWER())


def _measured(parts: list[pd.DataFrame], still: list[str]) -> Power:
    """Add up the meters; repeated measurements of one meter are averaged."""
    watts = math.fsum(float(own["mean_power_w"].mean()) for own in parts)
    files = dict.fromkeys(str(source) for own in parts for source in own["source"])
    doubts = dict.fromkeys([*still, *(str(words) for own in parts for words in own["reasons"] if words)])
    reason = DOUBTFUL_POWER(doubts=", ".join(doubts).replace("; ", ", ")) if doubts else ""
    return Power(watts, "measured", "; ".join(files), reason)


def _say_still(power: pd.DataFrame) -> list[str]:
    """Report meters that stood still: a constant counter reads 0 W, which is impossible for a computing device."""
    found = power.groupby("instrument", sort=True)["mean_power_w"].max()
    return [METER_STOOD_STILL(meter=name, watts=watts) for name, watts in found.items()]


def _doubt(meters: list[str], wanted: str, nodes: int) -> list[str]:
    if not meters:
        return []
    if wanted in meters:
        return [f"{wanted} sampled one of {nodes} nodes"]
    return [f"{', '.join(meters)} does not cover the accelerators"] if wanted == "nvml" else []


FORMULA = "formula"
"""Work by formula: the same for all precisions and libraries, and available for every benchmark."""
NO_WORK = "its work was not counted"
OTHER_RUN = "power: measured in a profiled run of the same benchmark, variant and scale, not in the timed one"
"""Timed runs are not sampled, so measured power always comes from another run."""
_RATES = ("vflops_flop_per_s", "rate_flop_per_s", "train_rate_samples_per_s")
_NAN = math.nan


@dataclass(frozen=True)
class _Scale:
    """Properties shared by all trials of a scale."""

    flop_per_sample: float
    work_source: str
    work_reason: str
    power: Power


def score_trials(
    runs: pd.DataFrame, work: pd.DataFrame, power: pd.DataFrame, machine: Machine | None = None
) -> pd.DataFrame:
    """Return the scores of every run.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).
    work, power
        The views of work and of power (:mod:`hpcai.profiles.views`).
    machine
        Machine file of the study, for declared power.

    Returns
    -------
    pandas.DataFrame
        ``TRIAL_COLUMNS``; a run that did not complete training has no score, with a `reason`. ``FLOPS =
        train_rate * flop_per_sample`` and ``VFLOPS = FLOPS * (quality / target) ** exponent`` (HPC AI500 V2.0, 8.2
        and 5.4.1) with the quality of the last evaluation and the suite's exponent for the workload;
        `time_to_quality_s` is the time from the first training batch to the end of the last epoch and includes
        `evaluation_s`: in HPC AI500 V2.0, 6.3.2, the clock runs between these points without pauses. Scores per watt
        [FLOP/J] are FLOPS and VFLOPS over the mean power, which is declared, or measured in a profiled run of the same
        point. `dropped` is that of the table of runs.
    """
    ordered = runs.sort_values([*SERIES, "ranks", "nodes", "scale", "repetition", "run_id"])
    rows: list[dict[str, Any]] = []
    for _, group in ordered.groupby(POINT, sort=False):
        shared = _describe_scale(group, work, power, machine)
        rows += [_score_trial(trial, shared) for trial in group.to_dict("records")]
    return score_frame(rows, TRIAL_COLUMNS)


def why_no_vflops(suite: Suite, workload: str, metric: str) -> str:
    """Return why HPC AI500 V2.0 defines no VFLOPS for a workload; blank if it defines them."""
    if workload in rules_of(suite).results.exponents:
        return ""
    if is_error_metric(metric):
        return ERROR_METRIC(metric=metric)
    return OTHER_SUITE(suite=rules_of(suite).title)


def is_error_metric(metric: str) -> bool:
    """Return whether lower is better: names of all error metrics have this ending, and no others do."""
    return metric.endswith("_error")


def _describe_scale(group: pd.DataFrame, work: pd.DataFrame, power: pd.DataFrame, machine: Machine | None) -> _Scale:
    first = group.iloc[0]
    counted = _at(work[work["method"] == FORMULA], first)
    known = machine if machine is not None and machine.name == first["machine"] else None
    own_power = find_power(_at(power, first), known, int(first["nodes"]))
    if counted.empty:
        return _Scale(_NAN, "", NO_WORK, own_power)
    row = counted.iloc[0]
    # The view has no rate if the work is not that of the samples trained on.
    of_trained = pd.notna(row["rate_flop_per_s"]) or pd.isna(row["train_rate_samples_per_s"])
    if pd.isna(row["flop_per_sample"]) or not of_trained:
        reason = str(row["reason"]) if pd.notna(row["reason"]) else ""
        return _Scale(_NAN, str(row["source"]), reason or NO_WORK, own_power)
    return _Scale(float(row["flop_per_sample"]), str(row["source"]), "", own_power)


def _at(view: pd.DataFrame, point: pd.Series) -> pd.DataFrame:
    return view[(view[POINT] == point[POINT]).all(axis=1)]


def _score_trial(run: dict[Any, Any], shared: _Scale) -> dict[str, Any]:
    exponents = rules_of(run["suite"]).results.exponents
    row = {name: run[name] for name in OF_THE_RUN} | {
        "flop_per_sample": shared.flop_per_sample,
        "flop_method": "" if math.isnan(shared.flop_per_sample) else FORMULA,
        "exponent": float(exponents.get(run["workload"], _NAN)),
        "work_source": shared.work_source,
        **dict.fromkeys(_RATES, _NAN),
    }
    if run["outcome"] not in COMPLETE:
        return row | {"reason": EARNED_NONE(outcome=say_name(run["outcome"]), reason=run["reason"])}
    rate = run_rate(run["train_rate_samples_per_s"] / run["ranks"], run["ranks"], shared.flop_per_sample)
    earned = {
        "train_rate_samples_per_s": run["train_rate_samples_per_s"],
        "rate_flop_per_s": rate,
        "quality": run["last_quality"],
        "time_to_quality_s": run["run_s"],
        "evaluation_s": run["evaluation_s"],
        "time_to_train_s": run["time_to_train_s"],
        **_vflops(rate, run["last_quality"], run["quality_target"], row["exponent"]),
    }
    return row | earned | _per_watt(earned, shared.power) | {"reason": _reasons(run, shared)}


def _vflops(rate_flop_per_s: float, quality: float, target: float, exponent: float) -> dict[str, float]:
    coefficient = quality_coefficient(quality, target, exponent)
    return {
        "quality_coefficient_ratio": coefficient,
        "quality_coefficient_capped_ratio": 1.0 if coefficient > 1 else coefficient,
        "vflops_flop_per_s": compute_vflops(rate_flop_per_s, quality, target, exponent),
        "vflops_capped_flop_per_s": compute_vflops(rate_flop_per_s, quality, target, exponent, capped=True),
    }


def _per_watt(earned: dict[str, float], power: Power) -> dict[str, Any]:
    return {
        "mean_power_w": power.mean_power_w,
        "power_method": power.method,
        "power_source": power.source,
        "flop_per_j": earned["rate_flop_per_s"] / power.mean_power_w,
        "vflops_flop_per_j": earned["vflops_flop_per_s"] / power.mean_power_w,
    }


def _reasons(run: dict[Any, Any], shared: _Scale) -> str:
    undefined = why_no_vflops(run["suite"], run["workload"], run["quality_metric"])
    unknown = "" if pd.notna(run["last_quality"]) else "no VFLOPS: no quality was evaluated"
    sentences = [
        f"no FLOPS: {shared.work_reason}" if shared.work_reason else "",
        undefined or unknown,
        OTHER_RUN if shared.power.method == "measured" else "",
        shared.power.reason,
    ]
    return join_reasons([sentence for sentence in sentences if sentence])
