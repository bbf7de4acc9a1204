"""From samples to ceilings."""

import math

import pytest

from hpcai.machine.ceilings.sampling import CeilingReport, NotMeasured, Sample, report_of
from hpcai.profiles.ceilings_view import COLUMNS, ceiling_rows


def sample(rate: float, **fields: object) -> Sample:
    basis = {"kind": "gemm", "precision": "fp32", "backend": "numpy", "setting": "8 x 8 x 8", "threads": 1}
    return Sample.model_validate({**basis, "work": 1000.0, "unit": "FLOP/s", "duration_s": 1000 / rate, **fields})


def test_a_summary_has_best_median_and_spread():
    (summary,) = report_of([sample(rate) for rate in (10.0, 30.0, 20.0, 22.0)]).summaries
    assert (summary.n, summary.ways) == (4, 1)
    assert summary.best == pytest.approx(30)
    assert summary.median == pytest.approx(21)
    assert summary.spread_ratio == pytest.approx(20 / 21)


def test_one_repetition_has_no_spread():
    report = report_of([sample(10.0)])
    assert report.summaries[0].spread_ratio is None
    assert math.isnan(ceiling_rows(report, "x.json")["spread_ratio"][0])


def test_the_best_is_per_precision_and_threads_over_all_backends_and_shapes():
    samples = [
        sample(10.0),
        sample(30.0, backend="tensorflow"),
        sample(20.0, setting="9 x 9 x 9"),
        sample(50.0, precision="bf16"),
        sample(40.0, threads=2),
    ]
    best = {(one.precision, one.threads): (one.backend, one.ways) for one in report_of(samples).best}
    assert best == {("fp32", 1): ("tensorflow", 3), ("bf16", 1): ("numpy", 1), ("fp32", 2): ("numpy", 1)}


def test_ten_threads_do_not_come_before_two():
    threads = [one.threads for one in report_of([sample(1.0, threads=n) for n in (10, 2, 1)]).summaries]
    assert threads == [1, 2, 10]


def test_reads_from_memory_make_no_ceiling():
    read = {"kind": "storage_read", "precision": "", "place": "shared", "unit": "B/s"}
    samples = [sample(5e9, **read, page_cache=state) for state in ("warm", "unknown")]
    assert report_of(samples).best == ()
    (best,) = report_of([*samples, sample(1e9, **read, page_cache="cold")]).best
    assert (best.best, best.n) == (pytest.approx(1e9), 1)


def test_rows_keep_the_best_of_each_backend_and_the_reason_of_what_is_missing():
    missing = [
        NotMeasured(kind="gemm", precision="fp16", backend="tensorflow", threads=1, reason="no such kernel"),
        NotMeasured(kind="gemm", precision="fp32", backend="numpy", setting="huge", threads=1, reason="too slow"),
        NotMeasured(kind="storage_read", place="shared", reason="in memory"),
    ]
    report = report_of([sample(10.0), sample(12.0), sample(30.0, backend="tensorflow")], missing)
    rows = ceiling_rows(report, "results/gemm.json")
    assert list(rows.columns) == list(COLUMNS)
    assert set(rows["source"]) == {"results/gemm.json"}
    measured, rest = rows[rows["value"].notna()], rows[rows["value"].isna()]
    assert list(measured["value"]) == [pytest.approx(12), pytest.approx(30)]
    # A shape that was too slow is no missing ceiling: numpy has one in this precision.
    assert list(rest["reason"]) == ["no such kernel", "in memory"]
    assert list(rest["unit"]) == ["FLOP/s", "B/s"]
    assert list(rest["place"]) == ["", "shared"]
    assert (rest["n"] == 0).all()


def test_rows_have_place_median_and_the_number_of_ways():
    read = {"kind": "storage_read", "precision": "", "unit": "B/s", "page_cache": "cold"}
    samples = [sample(rate, **read, place="shared") for rate in (1e9, 3e9, 2e9)]
    samples += [sample(9e9, **read, place="node-local"), sample(2.5e9, **read, place="shared", setting="4 files")]
    rows = ceiling_rows(report_of(samples), "x").set_index("place")
    shared = rows.loc["shared"]
    assert [shared[name] for name in ("value", "median", "n", "ways")] == pytest.approx([3e9, 2e9, 3, 2])
    assert rows.loc["node-local", "value"] == pytest.approx(9e9)


def test_what_is_missing_for_one_reason_is_one_row():
    missing = [
        NotMeasured(kind="gemm", precision="fp16", backend="x", setting=f"{number}", threads=1, reason=reason)
        for number, reason in enumerate(["time is up", "time is up", "no kernel"])
    ]
    rows = ceiling_rows(report_of([], missing), "x")
    assert list(rows["setting"]) == ["2 settings", "2"]
    assert list(rows["reason"]) == ["time is up", "no kernel"]


def test_nothing_at_all_is_an_empty_table_with_all_columns():
    assert list(ceiling_rows(report_of([]), "x").columns) == list(COLUMNS)


def test_a_report_survives_its_file():
    report = report_of([sample(10.0)], [NotMeasured(kind="gemm", reason="why")])
    assert CeilingReport.model_validate_json(report.model_dump_json()) == report


def test_no_sample_takes_no_time():
    with pytest.raises(ValueError, match="duration_s"):
        sample(1.0, duration_s=0.0)
