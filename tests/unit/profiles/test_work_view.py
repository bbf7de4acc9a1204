"""The work view: rates of timed runs, and memory traffic only for the batch and precision that it was modelled for."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hpcai.machine.work.step import FILLED, HloCount, WorkCount, WorkReport
from hpcai.metrics.profiles.counters import PARTLY_COUNTED
from hpcai.profiles.counters.processor import FP_ONLY
from hpcai.profiles.views import VIEWS, as_view
from hpcai.profiles.work_view import NO_TRAFFIC, NOT_COUNTED, OTHER_BATCH, OTHER_PRECISION, work_view

FLOP, TRAFFIC, SAMPLES = 6e9, 5e8, 8


def hlo(**changes: Any) -> HloCount:
    fields = {
        "stage": "optimized_hlo", "stage_reason": "", "samples": SAMPLES, "precision": "fp32", "instructions": 3,
        "flop_per_batch": {"optimized_hlo": SAMPLES * FLOP}, "data_flop_per_batch": SAMPLES * FLOP,
        "formula_flop_per_batch": SAMPLES * FLOP, "memory_bytes_per_batch": SAMPLES * TRAFFIC,
        "compulsory_bytes_per_batch": 1e8, "substituted": (), "reasons": (),
    }  # fmt: skip
    return HloCount(**{**fields, **changes})


def view(
    folder: Path,
    report: HloCount,
    *,
    scale: dict[str, Any] | None = None,
    counters: list[dict[str, Any]] | None = None,
    traffic: float | None = TRAFFIC,
    remark: str | None = None,
) -> pd.DataFrame:
    """Return the rows of one scale by method."""
    counts = (
        WorkCount(method="formula", flop_per_sample=FLOP, ratio_to_formula=1.0),
        WorkCount(
            method="hlo", flop_per_sample=FLOP, ratio_to_formula=1.0, memory_bytes_per_sample=traffic, remark=remark
        ),
    )
    work = WorkReport(
        benchmark="b", workload="cosmoflow", variant="fp32", samples_per_step=32, counts=counts, hlo=report,
        tensorflow="2.18",
    )  # fmt: skip
    (folder / "work.json").write_text(work.model_dump_json())
    row = {
        "benchmark": "b", "variant": "fp32", "engine": "horovod",
        "scale": "n1x2", "ranks": 2, "precision": "fp32", "accumulation": 2,
        "global_batch_samples": 4 * SAMPLES, "train_rate_samples_per_s": 100.0, "rate_n": 5,
    }  # fmt: skip
    scales = pd.DataFrame([{**row, **(scale or {})}])
    found = work_view([folder / "work.json"], scales, as_view("counters", counters or []))
    assert list(found.columns) == list(VIEWS["work"])
    return found.set_index("method")


def test_traffic_is_modelled_with_the_compiled_step_and_nowhere_else(tmp_path: Path) -> None:
    rows = view(tmp_path, hlo())
    assert rows.loc["hlo", "memory_bytes_per_sample"] == TRAFFIC
    assert rows["memory_method"].to_dict() == {"formula": "", "hlo": "modelled"}
    assert pd.isna(rows.loc["formula", "memory_bytes_per_sample"])
    assert rows["reason"].to_list() == ["", ""]
    assert rows["rate_flop_per_s"].to_list() == [100 * FLOP] * 2


def test_traffic_of_another_micro_batch_says_so(tmp_path: Path) -> None:
    row = view(tmp_path, hlo(memory_remark="a loop"), scale={"global_batch_samples": 2 * SAMPLES}).loc["hlo"]
    assert row["memory_bytes_per_sample"] == TRAFFIC
    assert row["reason"] == f"a loop; {OTHER_BATCH(samples=8, here=4)}"


def test_traffic_of_another_precision_is_not_taken(tmp_path: Path) -> None:
    row = view(tmp_path, hlo(), scale={"variant": "bf16", "engine": "horovod", "precision": "bf16"}).loc["hlo"]
    assert pd.isna(row["memory_bytes_per_sample"])
    assert (row["memory_method"], row["reason"]) == ("", OTHER_PRECISION(precision="fp32"))
    assert row["rate_flop_per_s"] == 100 * FLOP


@pytest.mark.parametrize("remark", ["not optimised", None])
def test_no_traffic_has_a_reason_also_in_older_reports(tmp_path: Path, remark: str | None) -> None:
    row = view(tmp_path, hlo(memory_bytes_per_batch=None, memory_remark=remark), traffic=None).loc["hlo"]
    assert pd.isna(row["memory_bytes_per_sample"])
    assert row["reason"] == (remark or NO_TRAFFIC())


def test_a_filled_batch_has_no_rate(tmp_path: Path) -> None:
    row = view(tmp_path, hlo(), remark=FILLED).loc["hlo"]
    assert pd.isna(row["rate_flop_per_s"])
    assert row["reason"] == FILLED


def test_hardware_counts_traffic_of_the_samples_that_were_profiled(tmp_path: Path) -> None:
    counted = {
        "benchmark": "b",
        "variant": "fp32",
        "engine": "horovod",
        "work_flop": 80 * FLOP,
        "flop_per_sample": 2 * FLOP,
        "micro_batch_samples": SAMPLES,
        "coverage_ratio": 1.0,
        "source": "n",
    }
    row = view(tmp_path, hlo(), counters=[{**counted, "memory_bytes_per_sample": 4e9 / 40}]).loc["counters"]
    assert row["memory_bytes_per_sample"] == pytest.approx(4e9 / 40)
    assert (row["memory_method"], row["reason"], row["source"]) == ("measured", "", "n")
    assert (row["ratio_to_formula"], row["rate_flop_per_s"], row["stage"]) == (2.0, 200 * FLOP, "")
    row = view(tmp_path, hlo(), counters=[{**counted, "memory_bytes_per_sample": float("nan")}]).loc["counters"]
    assert pd.isna(row["memory_bytes_per_sample"])
    assert (row["memory_method"], row["reason"]) == ("", NOT_COUNTED())


def test_counters_of_another_micro_batch_or_of_a_part_of_the_work_say_so(tmp_path: Path) -> None:
    """Counters are captured at the smallest scale: under strong scaling its local batch is larger."""
    counted = {
        "benchmark": "b", "variant": "fp32", "engine": "horovod", "flop_per_sample": FLOP, "source": "n",
        "memory_bytes_per_sample": TRAFFIC, "micro_batch_samples": 4 * SAMPLES, "coverage_ratio": 0.5,
        "reasons": FP_ONLY(),
    }  # fmt: skip
    row = view(tmp_path, hlo(), counters=[counted]).loc["counters"]
    assert row["memory_bytes_per_sample"] == TRAFFIC
    doubts = (OTHER_BATCH(samples=4 * SAMPLES, here=SAMPLES), PARTLY_COUNTED(share="50 %"), FP_ONLY())
    assert row["reason"] == "; ".join(doubts)
