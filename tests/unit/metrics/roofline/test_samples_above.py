"""Samples against their roofs, ceilings against declared peaks."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.config.machine import Machine
from hpcai.metrics.roofline.samples_above import (
    OTHER_UNIT,
    TOLERANCE_RATIO,
    declared_peaks,
    fastest_read,
    find_inconsistencies,
    find_slow_products,
    place_of_reads,
    refuse_above_peak,
    staged_runs,
)

COLUMNS = ["what", "roof", "value", "unit", "source"]


def samples(*values: float, unit: str = "FLOP/s", roof: str = "GEMM fp32") -> pd.DataFrame:
    rows = [(f"run {number}", roof, value, unit, f"r{number}.json") for number, value in enumerate(values)]
    return pd.DataFrame(rows, columns=COLUMNS)


def roofs(*values: float) -> pd.DataFrame:
    rows = [("GEMM fp32", value, "FLOP/s", "gemm.json") for value in values]
    return pd.DataFrame(rows, columns=["roof", "value", "unit", "source"])


def test_a_sample_above_its_roof_is_a_row_that_says_all():
    found = find_inconsistencies(samples(90e9, 120e9), roofs(100e9))
    assert len(found) == 1
    row = found.iloc[0]
    assert (row["what"], row["sample"], row["roof"], row["ratio"]) == ("run 1", 120e9, 100e9, pytest.approx(1.2))
    for words in ("run 1", "120 GFLOP/s", "100 GFLOP/s", "1.2 times", "r1.json", "gemm.json", "2 %"):
        assert words in row["sentence"]


def test_the_highest_of_several_roofs_counts():
    assert find_inconsistencies(samples(120e9), roofs(100e9, 150e9, 90e9)).empty


def test_noise_is_no_inconsistency():
    assert find_inconsistencies(samples(101.9e9), roofs(100e9)).empty
    assert len(find_inconsistencies(samples(102.1e9), roofs(100e9))) == 1


def test_what_was_not_measured_is_no_row():
    assert find_inconsistencies(samples(math.nan), roofs(100e9)).empty
    assert find_inconsistencies(samples(120e9), roofs(math.nan)).empty
    assert find_inconsistencies(samples(120e9, roof="memory"), roofs(100e9)).empty
    assert find_inconsistencies(samples(), roofs(100e9)).empty


def test_the_worst_comes_first():
    assert list(find_inconsistencies(samples(110e9, 300e9, 150e9), roofs(100e9))["what"]) == ["run 1", "run 2", "run 0"]


def test_units_must_agree():
    with pytest.raises(ValueError, match=OTHER_UNIT(what="run 0", found="B/s", expected="FLOP/s")):
        find_inconsistencies(samples(1.0, unit="B/s"), roofs(100e9))


@given(st.lists(st.floats(1.0, 1e15), min_size=1, max_size=8), st.floats(1.0, 1e15))
@settings(max_examples=30, deadline=None)
def test_every_row_is_above_and_no_other_sample_is(values, roof):
    found = find_inconsistencies(samples(*values), roofs(roof))
    assert (found["ratio"] > 1 + TOLERANCE_RATIO).all()
    assert len(found) == sum(value / roof > 1 + TOLERANCE_RATIO for value in values)


def ceilings(*rows: tuple[str, str, int, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["kind", "precision", "threads", "value"])
    return frame.assign(unit=np.where(frame["kind"] == "memory", "B/s", "FLOP/s"), backend="numpy", source="c.json")


def machine(**device: object) -> Machine:
    return Machine.model_validate(
        {
            "name": "m",
            "title": "M",
            "nodes": 1,
            "cores_per_node": 4,
            "memory_bytes": "8 GiB",
            "ranks_per_node": 2,
            "cores_per_rank": 2,
            "device": {"kind": "cpu", **device},
            "storage": {"node_local": "/tmp"},
        }
    )


PEAKS = {"fp32": {"rate_flop_per_s": "100 GFLOP/s", "source": "data sheet, 2024-01-01"}}


def test_a_ceiling_above_the_declared_peak_is_refused_with_an_explanation():
    measured = ceilings(("gemm", "fp32", 2, 95e9), ("convolution", "fp32", 2, 140e9), ("gemm", "bf16", 2, 900e9))
    kept, refused = refuse_above_peak(measured, declared_peaks(machine(peaks=PEAKS)))
    assert list(kept["value"]) == [95e9, 900e9]
    assert list(refused["ratio"]) == [pytest.approx(1.4)]
    for words in ("convolution fp32", "140 GFLOP/s", "100 GFLOP/s", "data sheet", "c.json", "not used as a ceiling"):
        assert words in refused.iloc[0]["sentence"]


def test_more_threads_than_a_device_has_are_several_devices():
    measured = ceilings(("gemm", "fp32", 4, 190e9), ("gemm", "fp32", 1, 101e9), ("gemm", "fp32", 1, 110e9))
    kept, refused = refuse_above_peak(measured, declared_peaks(machine(peaks=PEAKS)))
    assert list(kept["value"]) == [190e9, 101e9]  # one thread of a device of two may use what the whole device can do
    assert len(refused) == 1


def test_memory_is_compared_with_its_link():
    link = {"bandwidth_bytes_per_s": "20 GB/s", "source": "data sheet"}
    measured = ceilings(("memory", "", 2, 19e9), ("memory", "", 2, 25e9))
    kept, refused = refuse_above_peak(measured, declared_peaks(machine(memory_link=link)))
    assert list(kept["value"]) == [19e9]
    assert "25 GB/s" in refused.iloc[0]["sentence"]


def test_without_declared_peaks_everything_stays():
    measured = ceilings(("gemm", "fp32", 2, 95e9), ("memory", "", 1, math.nan))
    kept, refused = refuse_above_peak(measured, declared_peaks(machine()))
    pd.testing.assert_frame_equal(kept, measured)
    assert refused.empty


def test_no_ceilings_at_all_is_no_error():
    nothing = pd.DataFrame(columns=["kind", "precision"], dtype=float)
    kept, refused = refuse_above_peak(nothing, declared_peaks(machine()))
    assert kept.empty
    assert refused.empty


def test_gemm_is_compared_with_convolutions_on_the_same_cores_only():
    measured = ceilings(
        ("gemm", "fp32", 1, 56e9), ("convolution", "fp32", 1, 100e9), ("gemm", "fp32", 2, 100e9),
        ("convolution", "fp32", 2, 110e9), ("gemm", "bf16", 1, 1e9), ("convolution", "bf16", 2, 1e9),
        ("gemm", "fp16", 1, math.nan), ("convolution", "fp16", 1, 1e9),
    )  # fmt: skip
    slow = find_slow_products(measured)
    assert list(slow.index) == [0]
    assert "56 GFLOP/s" in slow[0]
    assert find_slow_products(measured.assign(threads=math.nan)).empty
    assert find_slow_products(measured.iloc[:0]).empty


@pytest.mark.parametrize(
    ("data", "staged", "place"),
    [
        ("staging", True, "shared"),
        ("training input", True, "node-local"),
        ("training input", False, "shared"),
    ],
)
def test_where_data_are_read_from(data, staged, place):
    assert place_of_reads(data, staged=staged) == place


def test_the_fastest_read_is_of_one_place():
    rows = [("storage_read", "shared", 2e8), ("storage_read", "shared", 1e8), ("storage_read", "node-local", 3e9)]
    table = pd.DataFrame([*rows, ("storage_write", "shared", 9e9)], columns=["kind", "place", "value"])
    assert fastest_read(table, "shared") == 2e8
    assert math.isnan(fastest_read(table, "elsewhere"))
    assert math.isnan(fastest_read(pd.DataFrame(), "shared"))


def test_staged_runs_are_those_that_staged():
    io = pd.DataFrame({"run_id": ["a", "a", "b"], "data": ["staging", "training input", "training input"]})
    assert staged_runs(io) == {"a"}
    assert staged_runs(pd.DataFrame()) == set()


def test_an_accelerator_is_one_device_whatever_its_host_threads():
    device = {"kind": "gpu", "peaks": PEAKS}
    fields = {**machine().model_dump(), "device": device, "accelerators_per_node": 2}
    kept, refused = refuse_above_peak(ceilings(("gemm", "fp32", 16, 150e9)), declared_peaks(Machine(**fields)))
    assert kept.empty
    assert len(refused) == 1
