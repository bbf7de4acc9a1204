"""Which meter's power is paired with a score, and when a declared number is."""

import math
import re

import pandas as pd
import pytest
from unit.record_factory import make_machine
from unit.score_factory import make_power

from hpcai.config.machine import Machine
from hpcai.metrics.scores.trial_scores import (
    DOUBTFUL_POWER,
    METER_STOOD_STILL,
    NO_POWER,
    NO_POWER_BUT,
    Power,
    find_power,
)

POINT = {"benchmark": "images_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x1"}
DECLARED = {"node_power_w": "500 W", "source": "data sheet, 2024-05-01"}


def machine(*, accelerators: int = 0, declared: bool = False) -> Machine:
    kind = "gpu" if accelerators else "cpu"
    changes = {"device": {"kind": kind}, "accelerators_per_node": accelerators}
    return make_machine(**changes, power=DECLARED if declared else None)


def meters(**watts: float) -> pd.DataFrame:
    return pd.concat([make_power(POINT, name, value) for name, value in watts.items()])


@pytest.mark.parametrize(
    ("found", "accelerators", "nodes", "used"),
    [
        ({"rapl": 90.0}, 0, 1, {"rapl"}),
        ({"nvml": 700.0, "rapl": 90.0}, 4, 1, {"nvml", "rapl"}),
        ({"nvml": 700.0}, 4, 1, {"nvml"}),
        ({"nvml": 700.0, "slurm": 900.0}, 4, 1, {"slurm"}),
        ({"rapl": 90.0, "slurm": 900.0}, 0, 8, {"slurm"}),
        ({"ipmi": 400.0}, 4, 1, {"ipmi"}),
        ({"rapl": 90.0, "ipmi": 400.0}, 0, 1, {"rapl"}),
        ({"rapl": 90.0, "ipmi": 400.0}, 4, 1, {"ipmi"}),
        ({"ipmi": 400.0, "slurm": 900.0}, 0, 1, {"slurm"}),
        ({"amd_smi": 700.0, "rapl": 90.0}, 4, 1, {"amd_smi", "rapl"}),
        ({"redfish": 410.0}, 4, 1, {"redfish"}),
        ({"redfish": 410.0, "ipmi": 400.0}, 4, 1, {"ipmi"}),
        ({"rapl": 90.0, "redfish": 410.0}, 0, 1, {"rapl"}),
    ],
)
def test_meters(found: dict[str, float], accelerators: int, nodes: int, used: set[str]) -> None:
    power = find_power(meters(**found), machine(accelerators=accelerators, declared=True), nodes)
    expected_w = sum(found[name] for name in used)
    assert (power.mean_power_w, power.method, power.reason) == (expected_w, "measured", "")
    assert sorted(re.findall(r"power_(\w+)\.csv", power.source)) == sorted(used)


@pytest.mark.parametrize(
    ("found", "accelerators", "nodes", "doubt"),
    [
        ({"rapl": 90.0}, 0, 8, "rapl sampled one of 8 nodes"),
        ({"nvml": 90.0, "rapl": 90.0}, 4, 2, "nvml sampled one of 2 nodes"),
        ({"rapl": 90.0}, 4, 1, "rapl does not cover the accelerators"),
        ({"rapl": math.nan}, 0, 1, ""),
        ({"ipmi": 400.0}, 0, 2, ""),
    ],
)
def test_a_meter_that_misses_a_part_is_not_used(
    found: dict[str, float], accelerators: int, nodes: int, doubt: str
) -> None:
    nothing = find_power(meters(**found), machine(accelerators=accelerators), nodes)
    assert math.isnan(nothing.mean_power_w)
    assert (nothing.method, nothing.source) == ("", "")
    assert nothing.reason.startswith(NO_POWER())
    assert doubt in nothing.reason
    declared = find_power(meters(**found), machine(accelerators=accelerators, declared=True), nodes)
    assert declared == Power(500.0 * nodes, "declared", "data sheet, 2024-05-01", "")


def test_without_a_machine_file_the_processors_alone_are_not_enough() -> None:
    assert math.isnan(find_power(meters(rapl=90.0), None, 1).mean_power_w)
    assert find_power(meters(nvml=700.0), None, 1).mean_power_w == 700.0


def test_repeats_are_averaged_and_doubts_are_kept() -> None:
    both = pd.concat([make_power(POINT, "rapl", 80.0), make_power(POINT, "rapl", 100.0)])
    power = find_power(both.assign(reasons=["", "longest gap 3 s; slow sensor"]), machine(), 1)
    assert power.mean_power_w == 90.0
    assert power.reason == DOUBTFUL_POWER(doubts="longest gap 3 s, slow sensor")


@pytest.mark.parametrize("watts", [0.0, -1.0])
def test_a_meter_that_stands_still_is_left_out(watts: float) -> None:
    words = METER_STOOD_STILL(meter="rapl", watts=watts)
    nothing = find_power(meters(rapl=watts), machine(), 1)
    assert math.isnan(nothing.mean_power_w)
    assert nothing.reason == NO_POWER_BUT(doubts=words)
    declared = find_power(meters(rapl=watts), machine(declared=True), 1)
    assert declared == Power(500.0, "declared", "data sheet, 2024-05-01", f"power: {words}")
    beside = find_power(meters(nvml=700.0, rapl=watts), machine(accelerators=4), 1)
    assert (beside.mean_power_w, beside.reason) == (700.0, f"power: {words}")
    assert "rapl" not in beside.source
