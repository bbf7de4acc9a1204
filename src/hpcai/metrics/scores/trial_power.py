"""Mean power of a scale for scores per watt: measured in a profiled run of the same point, or declared per node."""

import math
from dataclasses import dataclass

import pandas as pd

from hpcai.config.machine import Machine

WHOLE_NODES = "slurm"
"""The meter that counts all nodes of a run, and all that is in them."""
METERS = {"cpu": ("rapl",), "gpu": ("nvml", "rapl")}
"""Meters of one node that together count what computes; the first one has to be there."""
NO_POWER = "no FLOPS per watt: power was neither measured nor declared"


@dataclass(frozen=True)
class Power:
    """Mean power of all nodes of a scale.

    Attributes
    ----------
    mean_power_w
        NaN where it was neither measured nor declared.
    method
        "measured", "declared", or blank.
    source
        The meters' raw files, or where the declared number was read.
    reason
        Why there is none, or what is doubtful about a measured one.
    """

    mean_power_w: float = math.nan
    method: str = ""
    source: str = ""
    reason: str = NO_POWER


def find_power(power: pd.DataFrame, machine: Machine | None, nodes: int) -> Power:
    """Return the power that goes with the timed runs of a scale.

    Parameters
    ----------
    power
        Rows of the view ``power`` of the same benchmark, variant and scale: training steps of profiled runs alone.
    machine
        What the ranks compute on, and declared power; None where there is no machine file for these runs.
    nodes
        Number of nodes of the scale.

    Returns
    -------
    Power
        Slurm's power of all nodes; on one node else the sum of its meters, on accelerators never without theirs;
        else the declared power of a node times the nodes. HPC AI500 V2.0 does not say how to measure power
        (benchmarks.md 7.2). A meter that gave no more than 0 W stood still: it is left out, and `reason` says so.
    """
    measured = power[power["mean_power_w"] > 0]
    still = _say_still(power[power["mean_power_w"] <= 0])
    meters = {str(name): own for name, own in measured.groupby("instrument", sort=True)}
    if WHOLE_NODES in meters:
        return _measured([meters[WHOLE_NODES]], still)
    # Without a machine file nobody knows whether there are accelerators, which RAPL does not count.
    wanted = METERS[machine.device.kind if machine is not None else "gpu"]
    if wanted[0] in meters and nodes == 1:
        return _measured([meters[name] for name in wanted if name in meters], still)
    if machine is not None and machine.power is not None:
        reason = f"power: {', '.join(still)}" if still else ""
        return Power(machine.power.node_power_w * nodes, "declared", machine.power.source, reason)
    doubts = [*still, *_doubt(list(meters), wanted[0], nodes)]
    return Power(reason=f"{NO_POWER} ({', '.join(doubts)})" if doubts else NO_POWER)


def _measured(parts: list[pd.DataFrame], still: list[str]) -> Power:
    """Sum the meters; repeats of one meter are averaged."""
    watts = math.fsum(float(own["mean_power_w"].mean()) for own in parts)
    files = dict.fromkeys(str(source) for own in parts for source in own["source"])
    doubts = dict.fromkeys([*still, *(str(words) for own in parts for words in own["reasons"] if words)])
    reason = f"power: {', '.join(doubts)}".replace("; ", ", ") if doubts else ""
    return Power(watts, "measured", "; ".join(files), reason)


def _say_still(power: pd.DataFrame) -> list[str]:
    """Say which meters stood still: a counter that never moves reads as 0 W, which nothing that computes takes."""
    found = power.groupby("instrument", sort=True)["mean_power_w"].max()
    return [f"{name} gave {watts:g} W and was left out" for name, watts in found.items()]


def _doubt(meters: list[str], wanted: str, nodes: int) -> list[str]:
    if not meters:
        return []
    if wanted in meters:
        return [f"{wanted} sampled one of {nodes} nodes"]
    return [f"{', '.join(meters)} leaves out the accelerators"] if wanted == "nvml" else []
