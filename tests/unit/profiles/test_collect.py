"""All views of a study together: joined, completed, compared with the ceilings."""

import json

import pandas as pd
import pytest
from unit.record_factory import make_machine, make_study, write_records
from unit.view_factory import make_point, make_rows

from hpcai.core.disturbance import Tolerance
from hpcai.machine.ceilings.sampling import NotMeasured, Sample, report_of
from hpcai.machine.work.step import WorkCount, WorkReport
from hpcai.metrics.profiles.link import AllreduceReport, AllreduceSample
from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.profiles.characterisation_table import characterisation_view
from hpcai.profiles.collect import Measured, collect_views, read_views, summarise_views
from hpcai.profiles.views import VIEWS, as_view

FLOP_PER_SAMPLE = 1e9


@pytest.fixture(scope="module")
def scales(tmp_path_factory):
    return summarise_scales(collect_runs(write_records(make_study(), tmp_path_factory.mktemp("runs"))))


@pytest.fixture
def measured(tmp_path, scales):
    dense = [
        Sample(kind="gemm", precision="fp32", backend=name, setting="square", threads=1, work=1e12, unit="FLOP/s",
               duration_s=1.0)
        for name in ("numpy", "tensorflow")
    ]  # fmt: skip
    storage = Sample(
        kind="storage_read", backend="read", place="shared", setting="one file", threads=1, work=1e9, unit="B/s",
        duration_s=1.0, page_cache="cold",
    )  # fmt: skip
    missing = NotMeasured(kind="gemm", precision="fp16", reason="no such instructions")
    link = AllreduceReport(
        ranks=2, nodes=1, samples=[AllreduceSample(size_bytes=4**n, duration_s=1e-4 + 4**n / 1e9) for n in range(1, 12)]
    )
    counts = (WorkCount(method="formula", flop_per_sample=FLOP_PER_SAMPLE, ratio_to_formula=1.0),)
    work = WorkReport(
        benchmark="cosmoflow_tiny", workload="cosmoflow", variant="fp32", samples_per_step=4, counts=counts,
        tensorflow="2.18",
    )  # fmt: skip
    files = {"gemm": report_of([*dense, storage], [missing]), "allreduce": link, "work": work}
    for name, report in files.items():
        (tmp_path / f"{name}.json").write_text(report.model_dump_json())
    paths = {name: [str(tmp_path / f"{name}.json")] for name in files}
    return Measured(paths["gemm"], paths["allreduce"], paths["work"], scales, make_machine(), Tolerance())


def profiles(**changes):
    point = make_point(ranks=2)
    captured = {"status": "measured", "reason": ""}
    return {
        "captures": [make_rows("captures", point, profile=name, **captured) for name in ("timeline", "io")],
        "communication": [make_rows("communication", point, bus_bandwidth_bytes_per_s=1e8, steps=4)],
        "overlap": [as_view("overlap", [{**point, "overlap_ratio": 0.25}])],
        "io": [make_rows("io", point, page_cache="cold", io_epoch_s=0.5, bandwidth_sum_bytes_per_s=4e6, workers=2,
                         data="training input")],
        "lanes": [
            make_rows("lanes", {**point, "source": "a"}, lane="transfer", activity="X", start_s=0.0, duration_s=1.0),
            make_rows("lanes", {**point, "source": "b"}, lane="computation", activity="Y", start_s=0.0, duration_s=1.0),
        ],
        **changes,
    }  # fmt: skip


def test_every_view_has_its_columns_even_without_anything(measured):
    views = collect_views({}, measured)
    assert set(views) == set(VIEWS)
    for name, view in views.items():
        assert list(view.columns) == list(VIEWS[name]), name


def test_rates_stand_on_counted_work_and_timed_runs(measured, scales):
    work = collect_views({}, measured)["work"]
    assert len(work) == len(scales)
    assert set(work["method"]) == {"formula"}
    expected = scales["train_rate_samples_per_s"].to_numpy() * FLOP_PER_SAMPLE
    assert work["rate_flop_per_s"].to_numpy() == pytest.approx(expected)


def test_overlap_and_epochs_come_from_other_runs(measured, scales):
    views = collect_views(profiles(), measured)
    assert views["communication"]["overlap_ratio"].to_list() == [0.25]
    epoch_s = scales.loc[scales["ranks"] == 2, "epoch_mean_s"].iloc[0]
    assert views["io"]["epoch_s"].to_list() == [epoch_s]
    assert views["io"]["io_share_ratio"].to_list() == pytest.approx([0.5 / epoch_s])


def test_lanes_with_computation_go_before_lanes_without(measured):
    assert collect_views(profiles(), measured)["lanes"]["source"].to_list() == ["b"]


def test_table_seven_says_of_each_number_how_or_why_not(measured):
    row = collect_views(profiles(), measured)["characterisation"].iloc[0]
    assert row["network_bandwidth_bytes_per_s"] == 1e8
    assert row["network_bandwidth_method"].startswith("measured (Horovod's timeline")
    assert row["io_bandwidth_bytes_per_s"] == 2e6
    assert pd.isna(row["memory_bandwidth_bytes_per_s"])
    assert row["memory_bandwidth_reason"] == "not profiled (counters)"


def test_a_warm_read_is_no_bandwidth_of_storage(measured):
    warm = make_rows("io", make_point(ranks=2), page_cache="warm", bandwidth_sum_bytes_per_s=9e9, workers=2)
    row = collect_views(profiles(io=[warm]), measured)["characterisation"].iloc[0]
    assert pd.isna(row["io_bandwidth_bytes_per_s"])
    assert "page cache" in row["io_bandwidth_reason"]


def test_a_read_without_a_bandwidth_stops_nothing(measured):
    nobody = make_rows("io", make_point(ranks=2), page_cache="cold", workers=0, reasons="no process read data")
    captures = [make_rows("captures", make_point(ranks=2), profile="io", status="measured", reason="")]
    row = collect_views(profiles(io=[nobody], captures=captures), measured)["characterisation"].iloc[0]
    assert pd.isna(row["io_bandwidth_bytes_per_s"])
    assert row["io_bandwidth_reason"] == "no process read data"


def test_ceilings_that_were_not_measured_have_a_reason(measured):
    ceilings = collect_views({}, measured)["ceilings"].set_index(["kind", "precision"]).sort_index()
    assert pd.isna(ceilings.loc[("gemm", "fp16"), "value"]).all()
    assert ceilings.loc[("gemm", "fp16"), "reason"].to_list() == ["no such instructions"]
    assert ceilings.loc[("allreduce", ""), "value"].iloc[0] > 0


def test_every_ceiling_has_a_status(measured):
    ceilings = collect_views({}, measured)["ceilings"].set_index("kind")
    assert ceilings.loc["allreduce", "status"] == "measured"
    assert set(ceilings.loc["gemm", "status"]) == {"disturbed", "not measured"}  # a single repetition confirms nothing
    assert (ceilings.loc[ceilings["status"] != "measured", "reason"].str.len() > 0).all()


def test_what_is_above_its_roof_is_reported(measured):
    assert collect_views(profiles(), measured)["inconsistencies"].empty
    fast = make_rows("io", make_point(ranks=2), data="staging", page_cache="cold", bandwidth_parallel_bytes_per_s=2e9)
    found = collect_views(profiles(io=[fast]), measured)["inconsistencies"]
    assert list(found["what"]) == ["reading (staging) of cosmoflow_tiny, fp32, n1x2"]
    peaks = {"kind": "cpu", "peaks": {"fp32": {"rate_flop_per_s": "0.5 TFLOP/s", "source": "a data sheet"}}}
    declared = Measured(**{**vars(measured), "machine": make_machine(device=peaks)})
    refused = collect_views(profiles(), declared)["inconsistencies"]
    assert len(refused) > 0
    assert refused["sentence"].str.contains("peak").all()


def test_the_texts_get_rows_and_counts(measured, tmp_path):
    views = collect_views(profiles(), measured)
    summary = json.loads(summarise_views(views))
    assert summary["lanes"] == 1
    assert summary["communication"][0]["overlap_ratio"] == 0.25
    assert summary["communication"][0]["cycle_time_s"] is None
    as_view("io", views["io"]).to_parquet(tmp_path / "io.parquet")
    assert len(read_views({"io": [str(tmp_path / "io.parquet")] * 2})["io"]) == 2


def test_memory_traffic_is_modelled_where_no_counter_tells_it():
    point = make_point(ranks=2)
    own = {name: point[name] for name in ("benchmark", "variant", "engine", "scale", "ranks")}
    row = {**own, "memory_bytes_per_sample": 5e6, "memory_method": "modelled", "train_rate_samples_per_s": 200.0}
    views = {name: as_view(name, []) for name in VIEWS}
    views |= {"captures": make_rows("captures", point, profile="counters", status="not measured", reason="a guest")}
    views |= {"work": as_view("work", [{**row, "source": "work.json"}])}
    cell = characterisation_view(views).iloc[0]
    assert cell["memory_bandwidth_bytes_per_s"] == 5e6 * 200.0 / 2  # of one rank, as counters tell it
    assert cell["memory_bandwidth_method"].startswith("modelled")
    counted = as_view("counters", [{**make_point(ranks=1), "dram_rate_bytes_per_s": 7e9}])
    cell = characterisation_view({**views, "counters": counted}).iloc[0]
    assert (cell["memory_bandwidth_bytes_per_s"], cell["memory_bandwidth_method"][:8]) == (7e9, "measured")
