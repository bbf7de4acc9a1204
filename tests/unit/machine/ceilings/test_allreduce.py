"""Allreduces: real ranks, launchers that fail, and the views."""

import json
import math
import os
import sys

import pytest

from hpcai.core.accelerators import find_accelerators
from hpcai.machine.ceilings.allreduce import NO_TIMELINE, OTHER_TRANSFERS, add_transfers, measure_allreduce
from hpcai.machine.subprocess_measure import THIS_PYTHON
from hpcai.metrics.profiles.link import AllreduceReport, AllreduceSample
from hpcai.profiles.ceilings_view import COLUMNS
from hpcai.profiles.link_views import allreduce_ceiling, bus_factor, link_fit_rows, link_rows
from hpcai.training.allreduce_bench import SIZES, WARM_UP, parse_arguments

TWO_RANKS = (sys.executable, "-m", "hpcai.training.launch", "-np", "2", "--gloo")


def report_of(latency_s: float = 1e-3, bandwidth: float = 1e9, nodes: int = 1) -> AllreduceReport:
    samples = tuple(
        AllreduceSample(
            size_bytes=size,
            duration_s=factor * (latency_s + size / bandwidth),
            transfer_s=factor * (latency_s / 10 + size / bandwidth),
        )
        for size in SIZES
        for factor in (1.0, 0.9, 1.3)
    )
    return AllreduceReport(ranks=4, nodes=nodes, device="cpu", samples=samples)


def measure(launch=(), **options):
    return measure_allreduce([*launch, *THIS_PYTHON], 1, **options)


def test_sizes_reach_from_a_number_to_64_mib():
    assert (SIZES[0], SIZES[-1], len(SIZES)) == (4, 64 << 20, 13)


def test_real_ranks_sum_and_report():
    report = measure(TWO_RANKS, options=("--sizes", "4,4096,1048576", "--repeats", "3"))
    assert report.not_measured == ()
    assert (report.ranks, report.nodes) == (2, 1)
    links = link_rows(report, "allreduce.json")
    assert report.transfers_missing == ()
    assert list(links["bytes"]) == 2 * [4, 4096, 1048576]
    assert list(links["what"]) == 3 * ["transfer"] + 3 * ["call"]
    assert (links["n"] == 3).all()
    assert all(sample.transfer_s < sample.duration_s for sample in report.samples)
    assert (links["time_min_s"] <= links["time_s"]).all()
    assert (links["time_s"] <= links["time_max_s"]).all()
    assert (links["time_min_s"] > 0).all()


@pytest.mark.parametrize("engine", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_other_engines_time_calls_and_say_that_they_have_no_timeline(engine):
    launch = (sys.executable, "-m", "hpcai.training.spawn", "-np", "2")
    report = measure(launch, engine=engine, options=("--sizes", "4,4096", "--repeats", "3"))
    assert report.not_measured == ()
    assert (report.engine, report.ranks, report.nodes) == (engine, 2, 1)
    assert report.transfers_missing == (NO_TIMELINE(engine=engine),)
    links = link_rows(report, "allreduce.json")
    assert set(links["engine"]) == {engine}
    assert set(links["what"]) == {"call"}
    assert set(link_fit_rows(report, "x")["engine"]) == {engine}
    assert allreduce_ceiling(report, "x")["backend"].item() == engine


@pytest.mark.skipif(bool(find_accelerators()), reason="the pretended accelerator hides no real one")
def test_the_library_of_the_engine_is_told_its_accelerator(tmp_path, monkeypatch):
    """TensorFlow sees no accelerator here; JAX takes what the driver lists."""
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'GPU 0: pretended (UUID: GPU-aaaaaaaa-0000-1111-2222-333333333333)'\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    launch = (sys.executable, "-m", "hpcai.training.spawn", "-np", "1")
    report = measure(launch, engine="jax", device="gpu")
    assert (report.device, report.ranks, report.samples) == ("pretended", 1, ())


@pytest.mark.parametrize(
    ("launch", "options", "reason"),
    [
        (("/nowhere/mpirun",), {}, "/nowhere/mpirun: the launcher cannot be started: No such file"),
        (("false",), {}, "exit status 1: no output"),
        (("false",), {"engine": "tensorflow"}, "exit status 1: no output"),
        (("true",), {}, "the ranks' report is missing"),
        (("sh", "-c", "echo ValueError: no link; exit 3"), {}, "exit status 3: ValueError: no link"),
        (
            ("sh", "-c", "echo [1]:hpcai.core.errors.LaunchError: rank; echo RuntimeError: b; exit 1"),
            {},
            ": hpcai.core.errors.Laun",
        ),
        (("sh", "-c", "sleep 60"), {"limit_s": 1}, "ended after its limit of 1 s"),
    ],
)
def test_ranks_that_fail_are_a_reason_and_no_number(launch, options, reason):
    report = measure(launch, **options)
    assert (report.samples, report.engine) == ((), options.get("engine", "horovod"))
    assert reason in report.not_measured[0]
    assert link_rows(report, "x").empty
    fits = link_fit_rows(report, "x")
    assert fits["latency_s"].isna().to_list() == [True, True]
    assert fits["reason"].str.contains(reason, regex=False).all()
    ceiling = allreduce_ceiling(report, "x")
    assert math.isnan(ceiling["value"][0])
    assert reason in ceiling["reason"][0]


@pytest.mark.parametrize("text", ["3", "0", "-4", "4,5"])
def test_sizes_are_whole_numbers_of_floats(text, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--output", "x", "--sizes", text])
    assert "multiples of 4 bytes" in capsys.readouterr().err


def test_links_have_medians_and_both_bandwidths():
    links = link_rows(report_of(), "a.json").set_index("bytes")
    assert links.groupby("what").size().to_dict() == {"transfer": 13, "call": 13}
    assert links[links["what"] == "transfer"].loc[1 << 20, "time_s"] == pytest.approx(1e-4 + (1 << 20) / 1e9)
    row = links[links["what"] == "call"].loc[1 << 20]
    assert row["time_s"] == pytest.approx(1e-3 + (1 << 20) / 1e9)
    assert (row["time_min_s"], row["time_max_s"]) == (0.9 * row["time_s"], 1.3 * row["time_s"])
    assert row["algorithm_bandwidth_bytes_per_s"] == pytest.approx((1 << 20) / row["time_s"])
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(1.5 * row["algorithm_bandwidth_bytes_per_s"])
    assert set(links["scope"]) == {"node"}
    assert set(link_rows(report_of(nodes=2), "a.json")["scope"]) == {"network"}


def test_the_bus_carries_twice_all_but_the_own_part():
    assert [bus_factor(ranks) for ranks in (1, 2, 4)] == [0.0, 1.0, 1.5]


def test_the_fit_recovers_the_link():
    rows = link_fit_rows(report_of(2e-3, 3e9), "a.json").to_dict("records")
    for row, what, latency_s in zip(rows, ("transfer", "call"), (2e-4, 2e-3), strict=True):
        assert row["latency_s"] == pytest.approx(latency_s)
        assert row["bandwidth_bytes_per_s"] == pytest.approx(3e9)
        assert row["misfit_ratio"] == pytest.approx(0, abs=1e-6)
        assert (row["what"], row["scope"], row["ranks"], row["n"], row["reason"]) == (what, "node", 4, 13, "")


def timeline_of(counts) -> str:
    """Return a timeline in which the allreduces of each size take 1 us, 2 us, ... with barriers between them."""
    events = []
    for number, (size, count) in enumerate(counts.items(), 1):
        events.append({"name": "process_name", "ph": "M", "pid": number, "args": {"name": f"allreduce.{size}"}})
        for turn in range(count):
            at = 1000 * (100 * number + turn)
            events += [
                {"ph": "B", "name": "ALLREDUCE", "ts": at, "pid": number},
                {"ph": "B", "name": "GLOO_ALLREDUCE", "ts": at + 1, "pid": number},
                {"ph": "E", "ts": at + 1 + turn + 1, "pid": number},
                {"ph": "E", "ts": at + 500, "pid": number, "args": {"dtype": "float32", "shape": f"[{size // 4}]"}},
            ]
    start = {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 10**15}}
    return "[\n" + ",\n".join(json.dumps(event) for event in [start, *events]) + "]"


def test_transfers_are_those_of_the_same_repetitions(tmp_path):
    own = [AllreduceSample(size_bytes=size, duration_s=1.0) for size in (4, 16) for _ in range(3)]
    report = AllreduceReport(ranks=2, nodes=1, samples=own)
    path = tmp_path / "timeline.json"
    path.write_text(timeline_of({4: WARM_UP + 3, 16: WARM_UP + 2}))
    found = add_transfers(report, path)
    assert [sample.transfer_s for sample in found.samples] == [3e-6, 4e-6, 5e-6, None, None, None]
    assert found.transfers_missing == (OTHER_TRANSFERS(size=16, found=4, expected=5),)
    links = link_rows(found, "a.json")
    assert list(zip(links["what"], links["bytes"], strict=True)) == [("transfer", 4), ("call", 4), ("call", 16)]
    transfer, call = link_fit_rows(found, "a.json")["reason"]
    assert "16 bytes: 4 transfers" in transfer
    assert "16 bytes" not in call


def test_calls_are_measured_without_a_timeline_too(tmp_path):
    report = report_of().model_copy(update={"samples": (AllreduceSample(size_bytes=4, duration_s=1.0),)})
    found = add_transfers(report, tmp_path / "timeline.json")
    assert "no transfer was timed" in found.transfers_missing[0]
    assert list(link_rows(found, "a.json")["what"]) == ["call"]
    assert "bus bandwidth of the call" in allreduce_ceiling(found, "a.json")["setting"][0]
    assert add_transfers(AllreduceReport(), tmp_path / "timeline.json") == AllreduceReport()


def test_the_ceiling_is_the_fastest_exchange():
    (row,) = allreduce_ceiling(report_of(), "a.json").to_dict("records")
    largest = 64 << 20
    assert row["value"] == pytest.approx(1.5 * largest / (0.9 * (1e-4 + largest / 1e9)))
    assert row["median"] == pytest.approx(0.9 * row["value"])
    assert row["spread_ratio"] == pytest.approx(1 / 0.9 - 1 / 1.3)
    assert (row["n"], row["ways"], row["unit"]) == (3, 13, "B/s")
    assert "64 MiB, bus bandwidth" in row["setting"]
    assert list(allreduce_ceiling(report_of(), "a.json").columns) == list(COLUMNS)
