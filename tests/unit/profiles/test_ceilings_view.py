"""Impossible ceilings: fewer FLOP/s on more cores, GEMM below convolutions, best repetitions that disagree."""

import math
from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_machine

from hpcai.machine.ceilings.agreement import DISAGREE
from hpcai.machine.ceilings.sampling import NotMeasured, Sample, report_of
from hpcai.metrics.roofline.samples_above import SLOW_GEMM
from hpcai.profiles.ceilings_view import SLOWER, ceiling_rows, judge_rows
from hpcai.profiles.views import VIEWS, as_view


def samples(*rates: float, **fields: Any) -> list[Sample]:
    basis = {"kind": "gemm", "precision": "fp32", "backend": "numpy", "setting": "s", "threads": 1, "unit": "FLOP/s"}
    return [
        Sample.model_validate({**basis, "work": 1e9, **fields, "duration_s": fields.get("work", 1e9) / rate})
        for rate in rates
    ]


def row(report: Any, **wanted: Any) -> "pd.Series[Any]":
    rows = ceiling_rows(report, "x.json")
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_more_threads_have_at_least_the_rate_of_fewer_and_say_whose_it_is():
    report = report_of([*samples(75.9e9, 75e9), *samples(48.0e9, 47.9e9, threads=2)])
    two = row(report, threads=2)
    assert (two["value"], two["threads_used"], two["n"]) == (pytest.approx(75.9e9), 1, 2)
    assert SLOWER(threads=2, rate="48 GFLOP/s") in two["reason"]
    assert two["status"] == "measured"
    one = row(report, threads=1)
    assert (one["value"], one["threads_used"], one["reason"]) == (pytest.approx(75.9e9), 1, "")


def test_more_threads_that_are_faster_keep_their_own_rate():
    two = row(report_of([*samples(50e9, 50e9), *samples(90e9, 90e9, threads=2)]), threads=2)
    assert (two["value"], two["threads_used"], two["reason"]) == (pytest.approx(90e9), 2, "")


def test_fewer_threads_lend_only_what_is_alike():
    faster = samples(90e9, 90e9, precision="bf16") + samples(95e9, 95e9, backend="tensorflow")
    two = row(report_of([*faster, *samples(50e9, 50e9, threads=2)]), threads=2)
    assert two["threads_used"] == 2


def test_streams_of_storage_are_no_cores():
    fields = {"kind": "storage_write", "precision": "", "place": "shared", "unit": "B/s"}
    report = report_of([*samples(2e9, 2e9, **fields), *samples(1e9, 1e9, **fields, threads=4)])
    assert row(report, threads=4)["value"] == pytest.approx(1e9)


def test_a_rate_that_was_reached_once_is_disturbed():
    found = row(report_of(samples(100e9, 55e9, 60e9)))
    assert (found["status"], found["agreement_ratio"]) == ("disturbed", pytest.approx(0.4))
    assert DISAGREE(n=3, apart=0.4, most=0.05) in found["reason"]
    alone = row(report_of(samples(100e9)))
    assert alone["status"] == "disturbed"
    assert math.isnan(alone["agreement_ratio"])


def judged(*rows: dict[str, Any], **device: Any) -> pd.DataFrame:
    basis = {"kind": "gemm", "precision": "fp32", "backend": "numpy", "threads": 1, "status": "measured", "reason": "",
             "quiet": "quiet", "unit": "FLOP/s"}  # fmt: skip
    table = pd.DataFrame([{**basis, "source": f"{one.get('kind', 'gemm')}.json", **one} for one in rows])
    machine = make_machine(device={"kind": "cpu", **device})
    return as_view("ceilings", judge_rows(table.reindex(columns=list(VIEWS["ceilings"])), machine))


def test_gemm_below_convolutions_on_the_same_cores_is_refused():
    found = judged(
        {"value": 56e9}, {"value": 40e9, "backend": "scipy"}, {"value": 100e9, "kind": "convolution"},
        {"value": 120e9, "threads": 2}, {"value": 9e9, "precision": "bf16"},
    )  # fmt: skip
    assert found["status"].tolist() == ["refused", "refused", "measured", "measured", "measured"]
    rates = {"product": "56 GFLOP/s", "convolution": "100 GFLOP/s", "source": "convolution.json"}
    assert SLOW_GEMM(precision="fp32", threads=1, **rates) in found["reason"][0]


def test_one_fast_library_is_enough_for_gemm():
    found = judged({"value": 56e9}, {"value": 99e9, "backend": "scipy"}, {"value": 100e9, "kind": "convolution"})
    assert set(found["status"]) == {"measured"}


def test_convolutions_may_skip_the_zeros_that_are_counted():
    found = judged({"value": 89e9}, {"value": 100e9, "kind": "convolution"})
    assert set(found["status"]) == {"measured"}


def test_a_convolution_above_the_declared_peak_refuses_no_gemm():
    peaks = {"fp32": {"rate_flop_per_s": "80 GFLOP/s", "source": "a data sheet"}}
    found = judged({"value": 56e9}, {"value": 100e9, "kind": "convolution"}, peaks=peaks)
    assert found["status"].tolist() == ["measured", "refused"]
    assert "declared peak" in found["reason"][1]


def test_a_report_that_others_disturbed_makes_disturbed_ceilings():
    found = judged({"value": 56e9, "quiet": "disturbed"}, {"value": math.nan, "quiet": "disturbed", "reason": "why"})
    assert found["status"].tolist() == ["disturbed", "not measured"]
    assert "took more of the cores" in found["reason"][0]
    assert found["reason"][1] == "why"


def test_a_number_of_threads_that_was_not_measured_is_a_row_beside_the_others():
    missing = NotMeasured(kind="gemm", threads=8, reason="too few cores")
    rows = ceiling_rows(report_of(samples(1e9, 1e9), [missing]), "x.json").set_index("threads")
    assert rows["status"].to_dict() == {1: "measured", 8: "not measured"}
    assert rows.loc[8, "reason"] == "too few cores"
