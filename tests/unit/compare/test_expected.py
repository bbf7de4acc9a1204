"""Only results of one kind of device, benchmark and data are compared; where there are none the row says why."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.mlperf_hpc.analysis.import_trees import deepcam_logs, tables_of
from unit.mlperf_hpc.log_factory import system_json, write_tree
from unit.record_factory import make_machine, make_provenance, make_record

from hpcai.compare.expected import (
    NO_DEVICE,
    NO_OTHERS,
    NO_RATE,
    NO_SAME_DEVICE,
    NO_SAME_RULES,
    SENTENCE,
    TOO_FEW,
    Device,
    device_of_study,
    expected_ranges,
    read_elsewhere,
)
from hpcai.core.table_files import write_parquet
from hpcai.metrics.scores.columns import SCORE_COLUMNS, score_frame

A100 = Device("A100", "accelerator", 1.0)
OWN = {
    "suite": "mlperf_hpc", "workload": "cosmoflow", "benchmark": "cosmoflow", "dataset": "cosmoflow_v2 (official)",
    "variant": "fp32", "engine": "horovod", "scale": "n1x4", "nodes": 1, "ranks": 4, "quality_target": 0.124,
    "division": "closed", "precision": "fp32", "train_rate_samples_per_s": 368.0,
}  # fmt: skip


def make_others(count: int = 7, **changes: Any) -> pd.DataFrame:
    """Return results of one kind with rates per unit around 100; ``changes`` replace their fields."""
    row = {**OWN, "precision": "", "device": "A100", "device_unit": "accelerator", **changes}
    return pd.DataFrame([{**row, "unit_rate": 97.0 + number} for number in range(count)])


def expect(others: pd.DataFrame, own: Device | None = A100, **changes: Any) -> pd.Series:
    """Return the row of one result among others."""
    return expected_ranges(score_frame([{**OWN, **changes}], SCORE_COLUMNS), own, others).iloc[0]


def test_a_result_beside_the_median_of_seven() -> None:
    row = expect(make_others())
    assert row["expected_sentence"] == SENTENCE(percent=92, n=7)
    assert (row["unit_rate_samples_per_s"], row["expected_samples_per_s"], row["expected_n"]) == (92.0, 100.0, 7)
    assert 97 < row["expected_low_samples_per_s"] < 100 < row["expected_high_samples_per_s"] < 103
    assert row["expected_ratio"] == pytest.approx(0.92)
    assert row["reason"] == ""


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        (make_others(0), NO_OTHERS()),
        (make_others(device="H100"), NO_SAME_DEVICE(n=7, device="A100")),
        (make_others(device_unit="core"), NO_SAME_DEVICE(n=7, device="A100")),
        (make_others(dataset="cosmoflow_v2 (generated)"), NO_SAME_RULES(n=7)),
        (make_others(quality_target=0.3), NO_SAME_RULES(n=7)),
        (make_others(division="open"), NO_SAME_RULES(n=7)),
        (make_others(precision="bf16"), NO_SAME_RULES(n=7)),
        (make_others(workload="deepcam"), NO_SAME_RULES(n=7)),
        (make_others(2), TOO_FEW(n=2, needed=3)),
    ],
)
def test_nothing_comparable_leaves_the_cells_empty_with_a_reason(others: pd.DataFrame, reason: str) -> None:
    full = others if len(others) else make_others().head(0)
    row = expect(full)
    assert row["reason"] == reason
    assert row[["expected_samples_per_s", "expected_ratio"]].isna().all()


def test_an_unknown_device_and_a_result_without_a_rate_say_so() -> None:
    assert expect(make_others(), None)["reason"] == NO_DEVICE()
    assert expect(make_others(), train_rate_samples_per_s=float("nan"))["reason"] == NO_RATE()


def test_processors_are_compared_per_core() -> None:
    row = expect(
        make_others(device="Xeon Platinum 8268", device_unit="core"), Device("Xeon Platinum 8268", "core", 2.0)
    )
    assert row["unit_rate_samples_per_s"] == 46.0


def test_the_device_comes_from_the_records() -> None:
    facts = {"cpu_model": "Intel(R) Xeon(R) Platinum 8268 CPU @ 2.90GHz"}
    cpu = make_record(record={"provenance": make_provenance(machine_facts=facts)})
    assert device_of_study([cpu]) == Device("Xeon Platinum 8268", "core", 1.0)
    gpu = make_record(
        machine=make_machine(device={"kind": "gpu"}, accelerators_per_node=4),
        record={
            "provenance": make_provenance(machine_facts={"accelerators": "NVIDIA A100-SXM4-40GB, 40536 MiB, 535.1"})
        },
    )
    assert device_of_study([gpu]) == A100
    assert device_of_study([cpu, gpu]) is None
    assert device_of_study([cpu, gpu, cpu]) is None, "a record between the others counts as well"
    assert device_of_study([cpu, cpu, cpu]) == device_of_study([cpu])
    assert device_of_study([make_record()]) is None
    assert device_of_study([]) is None


def test_folders_of_rounds_are_read_once_without_what_was_published_before(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    rows = [
        {**OWN, "origin": "v2.0", "machine": "org/gpus", "reason": ""},
        {**OWN, "origin": "v2.0", "machine": "org/gpus", "reason": "the same runs as v1.0 org/gpus"},
        {**OWN, "origin": "v2.0", "machine": "org/cpus", "reason": ""},
        {**OWN, "origin": "v2.0", "machine": "org/unknown", "reason": ""},
    ]
    write_parquet(score_frame(rows, SCORE_COLUMNS), tables / "scores.parquet")
    systems = [
        {"origin": "v2.0", "submission": "org/gpus", "accelerator": "A100", "family": "A100", "processor_cores": 64.0},
        {"origin": "v2.0", "submission": "org/cpus", "accelerator": "", "family": "A64FX", "processor_cores": 46.0},
        {"origin": "v2.0", "submission": "org/unknown", "accelerator": "", "family": "X", "processor_cores": None},
    ]
    write_parquet(pd.DataFrame(systems), tables / "mlperf_systems.parquet")
    found = read_elsewhere([tmp_path, tmp_path, tmp_path / "none"])
    assert list(found["device"]) == ["A100", "A64FX"]
    assert list(found["unit_rate"]) == [92.0, 2.0]


@pytest.mark.parametrize(
    ("accelerators", "found"), [("8", ("V100", "accelerator")), ("many", ()), ("0", ("EPYC 7742", "core"))]
)
def test_processors_of_a_machine_with_accelerators_are_no_units_to_compare(
    accelerators: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    """Of a named accelerator whose number is not told, the processors would count as if they were accelerators."""
    described = system_json(accelerators_per_node=accelerators, accelerator_model_name="NVIDIA V100")
    write_tree(tmp_path / "round", benchmark="deepcam", logs=deepcam_logs(), description=described)
    (tmp_path / "imported/tables").mkdir(parents=True)
    for name, table in tables_of(tmp_path / "round").items():
        write_parquet(table, tmp_path / "imported/tables" / f"{name}.parquet")
    elsewhere = read_elsewhere([tmp_path / "imported"])
    assert tuple(elsewhere[["device", "device_unit"]].to_numpy().ravel()) == found
