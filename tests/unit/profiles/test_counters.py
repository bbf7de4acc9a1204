"""Hardware counters of a profiled run."""

import math

import pytest
from unit.profiles.profile_folders import make_profile

from hpcai.config.study import WARM_STEPS
from hpcai.profiles.counters import PERF as COUNTED_ALL
from hpcai.profiles.counters import counter_views, counters_of
from hpcai.profiles.reading import read_profiles

NVPROF = """==7== NVPROF is profiling process 7, command: python
==7== Profiling result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"flop_count_sp","Floating Point Operations",1000,1000,1000
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"flop_count_hp","Floating Point Operations",0,0,0
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"flop_count_dp","Floating Point Operations",0,0,0
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"dram_read_transactions","Device Memory Read Transactions",10,10,10
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"dram_write_transactions","Device Memory Write Transactions",5,5,5
"Tesla V100 (0)","volta_sgemm_128x64_nn",4,"ipc","Executed IPC",1.500000,1.500000,1.500000
"""
PERF = "1000,,cycles:u,5000,100.00,,\n1500,,instructions:u,5000,100.00,1.50,insn per cycle\n"


def test_perf_tells_instructions_per_cycle_and_no_work(tmp_path):
    row = counter_views(make_profile(tmp_path / "p", "counters", {"perf.csv": PERF}, tool="perf"))["counters"].iloc[0]
    assert row["instructions_per_cycle"] == pytest.approx(1.5)
    assert math.isnan(row["work_flop"])
    assert math.isnan(row["dram_bytes"])
    assert COUNTED_ALL in row["reasons"]


def test_kernels_tell_work_and_traffic(tmp_path):
    raw = {"nvprof_metrics.csv": NVPROF}
    profile = make_profile(tmp_path / "p", "counters", raw, tool="nvprof", compute_capability="6.0")
    row = counter_views(profile)["counters"].iloc[0]
    assert row["dram_bytes"] == 4 * 15 * 32
    assert row["work_flop"] == 4000
    samples = (len(profile.steps()) - WARM_STEPS) * profile.plan.local_batch
    assert row["flop_per_sample"] == 4000 / samples
    assert set(counters_of(profile).table["name"]) == {"volta_sgemm_128x64_nn"}


def test_what_tensor_cores_do_is_not_known_from_nvprof(tmp_path):
    raw = {"nvprof_metrics.csv": NVPROF}
    profile = make_profile(tmp_path / "p", "counters", raw, tool="nvprof", compute_capability="7.0")
    row = counter_views(profile)["counters"].iloc[0]
    assert math.isnan(row["work_flop"])
    assert math.isnan(row["rate_flop_per_s"])
    assert row["reasons"]


def test_kernels_of_another_run_get_their_counters(tmp_path):
    trace = """==7== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",\
"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"
ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,
10.000000,100.000000,1,1,1,1,1,1,32,0.000000,0,,,,,"Tesla V100 (0)","1","7","volta_sgemm_128x64_nn [1]"
11.000000,100.000000,1,1,1,1,1,1,32,0.000000,0,,,,,"Tesla V100 (0)","1","7","volta_sgemm_128x64_nn [2]"
"""
    timed = make_profile(tmp_path / "t", "kernels", {"nvprof_trace.csv": trace}, tool="nvprof")
    counted = make_profile(tmp_path / "c", "counters", {"nvprof_metrics.csv": NVPROF}, tool="nvprof")
    captures = ([timed.folder / "capture.json"], [counted.folder / "capture.json"])
    kernels = read_profiles("kernels", *captures)["kernels"]
    assert kernels["category"].to_list() == ["GEMM"]
    assert kernels["share_ratio"].sum() == pytest.approx(1.0)
    assert kernels["instructions_per_cycle"].to_list() == [1.5]
    assert kernels["dram_bytes"].to_list() == [2 * 15 * 32]
    alone = read_profiles("kernels", captures[0])["kernels"]
    assert alone["instructions_per_cycle"].isna().all()
