"""Hardware counters of a profiled run."""

import math
import re
from pathlib import Path

import pytest
from unit.profiles.profile_folders import STEPS_S, make_profile

from hpcai.config.study import WARM_STEPS
from hpcai.profiles.counters.processor import FP_ONLY, OF_THE_NODE, WHOLE_PROCESS
from hpcai.profiles.counters.views import counter_views, counters_of
from hpcai.profiles.kernels.views import OTHER_BATCH
from hpcai.profiles.reading import read_profiles

DATA = Path(__file__).parents[3] / "data"
RECORDED = DATA / "likwid"
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
# Event lines in perf's format. Intel's are quoted in public repositories (Skylake-SP), here without the cgroup field.
# AMD's FLOP line may be a fixture of its repository; its memory events (Zen 4) were put into this format by hand.
INTEL_WORK = """8693488,,fp_arith_inst_retired.scalar_double,332104389,33.42,,
0,,fp_arith_inst_retired.scalar_single,332059617,33.42,,
0,,fp_arith_inst_retired.128b_packed_double,332052099,33.41,,
0,,fp_arith_inst_retired.256b_packed_double,331910540,33.40,,
"""
INTEL_MEMORY = """N0,1,199.87,MiB,uncore_imc/cas_count_read/,12074958183,100.00,,
N0,1,89.92,MiB,uncore_imc/cas_count_write/,12070278197,100.00,,
N1,1,293.57,MiB,uncore_imc/cas_count_read/,12020030181,100.00,,
N1,1,226.15,MiB,uncore_imc/cas_count_write/,12015468348,100.00,,
"""
AMD_WORK = "46405704032,,fp_ret_sse_avx_ops.all,1200000000,100.00,,\n"
AMD_MEMORY = "5602648,,umc_cas_cmd.rd,1003627268,100.00,,\n1024027,,umc_cas_cmd.wr,1003627268,100.00,,\n"


def counted(tmp_path, raw, tool="perf", **plan):
    return counter_views(make_profile(tmp_path / "p", "counters", raw, tool=tool, **plan))["counters"].iloc[0]


def test_perf_without_further_events_tells_instructions_per_cycle_and_no_work(tmp_path):
    row = counted(tmp_path, {"perf.csv": PERF})
    assert row["instructions_per_cycle"] == pytest.approx(1.5)
    assert math.isnan(row["work_flop"])
    assert math.isnan(row["flop_per_sample"])
    assert math.isnan(row["dram_bytes"])


@pytest.mark.parametrize(
    ("work", "memory", "flop", "dram_bytes"),
    [
        (INTEL_WORK, INTEL_MEMORY, 8693488, (199.87 + 89.92 + 293.57 + 226.15) * 2**20),
        (AMD_WORK, AMD_MEMORY, 46405704032, 64 * (5602648 + 1024027)),
    ],
    ids=["intel", "amd"],
)
def test_perf_tells_work_and_traffic_of_the_profiled_steps(tmp_path, work, memory, flop, dram_bytes):
    row = counted(tmp_path, {"perf.csv": PERF + work, "perf_memory.csv": memory}, ranks_per_node=2)
    steps = len(STEPS_S) - WARM_STEPS
    assert row["work_flop"] == flop
    assert row["dram_bytes"] == pytest.approx(dram_bytes / 2)  # two ranks share the node
    assert row["duration_s"] == pytest.approx(0.5 * steps)
    assert row["dram_rate_bytes_per_s"] == pytest.approx(dram_bytes / 2 / (0.5 * steps))
    assert row["intensity_flop_per_byte"] == pytest.approx(2 * flop / dram_bytes)
    assert FP_ONLY() in row["reasons"]
    assert OF_THE_NODE(ranks=2) in row["reasons"]


def test_packed_operations_count_all_their_lanes(tmp_path):
    names = ("scalar", "128b_packed", "256b_packed", "512b_packed")
    lines = "".join(
        f"10,,fp_arith_inst_retired.{name}_{precision},1,100.00,,\n"
        for name in names
        for precision in ("single", "double")
    )
    row = counted(tmp_path, {"perf.csv": PERF + lines})
    assert row["work_flop"] == 10 * (1 + 4 + 8 + 16 + 1 + 2 + 4 + 8)
    lost = lines.replace(
        "10,,fp_arith_inst_retired.512b_packed_single", "<not counted>,,fp_arith_inst_retired.512b_packed_single"
    )
    (tmp_path / "lost").mkdir()
    assert math.isnan(counted(tmp_path / "lost", {"perf.csv": PERF + lost})["work_flop"])


LIKWID = """TABLE,Group 1 Metric,MEM_SP,7,
Metric,HWThread 0,HWThread 1,
Runtime (RDTSC) [s],2.0,2.0,
SP [MFLOP/s],100.0,50.0,
DP [MFLOP/s],0,0,
CPI,1.0,1.5,
Memory bandwidth [MBytes/s],4000.0,0,
Memory data volume [GBytes],8.0,0,
Operational intensity [FLOP/Byte],0.0375,0,
TABLE,Group 1 Metric STAT,MEM_SP,7,,
Metric,Sum,Min,Max,Avg
Runtime (RDTSC) [s] STAT,4.0,2.0,2.0,2.0
SP [MFLOP/s] STAT,150.0,50.0,100.0,75.0
DP [MFLOP/s] STAT,0,0,0,0
CPI STAT,2.5,1.0,1.5,1.25
Memory bandwidth [MBytes/s] STAT,4000.0,0,4000.0,2000.0
Memory data volume [GBytes] STAT,8.0,0,8.0,4.0
Operational intensity [FLOP/Byte] STAT,0.0375,0,0.0375,0.01875
"""


def test_likwid_tells_work_and_traffic_of_the_whole_process(tmp_path):
    row = counted(tmp_path, {"likwid.csv": LIKWID}, tool="LIKWID")
    assert row["dram_bytes"] == pytest.approx(8e9)
    assert row["dram_rate_bytes_per_s"] == pytest.approx(4e9)
    assert row["work_flop"] == pytest.approx(3e8)
    # The whole process is no step: no work and no bytes of a sample, and no intensity of the training.
    assert row[["flop_per_sample", "memory_bytes_per_sample", "intensity_flop_per_byte"]].isna().all()
    assert WHOLE_PROCESS() in row["reasons"]
    assert FP_ONLY() in row["reasons"]


def test_a_rank_has_its_share_of_what_likwid_counts_on_the_node(tmp_path):
    row = counted(tmp_path, {"likwid.csv": LIKWID}, tool="LIKWID", ranks_per_node=2)
    assert row["work_flop"] == pytest.approx(1.5e8)
    assert row["rate_flop_per_s"] == pytest.approx(7.5e7)
    assert row["dram_bytes"] == pytest.approx(4e9)
    assert row["dram_rate_bytes_per_s"] == pytest.approx(2e9)
    assert OF_THE_NODE(ranks=2) in row["reasons"]


@pytest.mark.parametrize(
    ("name", "events", "dram_bytes"),
    [
        ("zen3.txt", r"dram_channel", 10885.3 * 2**20),
        ("zen4_intervals.txt", r"^ +7\.0.*umc_cas_cmd\.(?:rd|wr)", (47612.4 + 33981.5) * 1e6),
        ("cascade_lake.txt", r"uncore_imc", (767.95 + 5.02) * 2**20),
        ("ice_lake.csv", r"uncore_imc", 1.85 * 2**20),
    ],
)
def test_traffic_is_what_perf_said_on_recorded_machines(tmp_path, name, events, dram_bytes):
    lines = (DATA / "perf" / name).read_text().splitlines()
    asked = "".join(f"{line}\n" for line in lines if re.search(events, line))
    row = counted(tmp_path, {"perf.csv": PERF, "perf_memory.csv": asked})
    assert row["dram_bytes"] == pytest.approx(dram_bytes, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "dram_bytes", "duration_s"),
    [("mem_cascade_lake.csv", 384.0060e9, 3.7666), ("mem_zen.csv", 768.9921e9, 5.9014)],
)
def test_recorded_likwid_output_tells_the_traffic_of_all_memory_domains(tmp_path, name, dram_bytes, duration_s):
    row = counted(tmp_path, {"likwid.csv": (RECORDED / name).read_text()}, tool="LIKWID")
    assert row["dram_bytes"] == pytest.approx(dram_bytes, rel=1e-6)
    assert row["duration_s"] == duration_s
    assert math.isnan(row["work_flop"])  # the group MEM has no events of arithmetic


def test_kernels_tell_work_and_traffic(tmp_path):
    raw = {"nvprof_metrics.csv": NVPROF}
    profile = make_profile(tmp_path / "p", "counters", raw, tool="nvprof", compute_capability="6.0")
    row = counter_views(profile)["counters"].iloc[0]
    assert row["dram_bytes"] == 4 * 15 * 32
    assert row["work_flop"] == 4000
    samples = (len(profile.steps()) - WARM_STEPS) * profile.plan.local_batch
    assert row["flop_per_sample"] == 4000 / samples
    assert row["memory_bytes_per_sample"] == 4 * 15 * 32 / samples
    assert row["micro_batch_samples"] == profile.plan.micro_batch
    assert set(counters_of(profile).table["name"]) == {"volta_sgemm_128x64_nn"}


def test_what_tensor_cores_do_is_not_known_from_nvprof(tmp_path):
    raw = {"nvprof_metrics.csv": NVPROF}
    profile = make_profile(tmp_path / "p", "counters", raw, tool="nvprof", compute_capability="7.0")
    row = counter_views(profile)["counters"].iloc[0]
    assert math.isnan(row["work_flop"])
    assert math.isnan(row["rate_flop_per_s"])
    assert row["reasons"]


TRACE = """==7== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",\
"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"
ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,
10.000000,100.000000,1,1,1,1,1,1,32,0.000000,0,,,,,"Tesla V100 (0)","1","7","volta_sgemm_128x64_nn [1]"
11.000000,100.000000,1,1,1,1,1,1,32,0.000000,0,,,,,"Tesla V100 (0)","1","7","volta_sgemm_128x64_nn [2]"
"""


def test_kernels_of_another_run_get_their_counters(tmp_path):
    timed = make_profile(tmp_path / "t", "kernels", {"nvprof_trace.csv": TRACE}, tool="nvprof")
    counted = make_profile(tmp_path / "c", "counters", {"nvprof_metrics.csv": NVPROF}, tool="nvprof")
    captures = ([timed.folder / "capture.json"], [counted.folder / "capture.json"])
    kernels = read_profiles("kernels", *captures)["kernels"]
    assert kernels["category"].to_list() == ["GEMM"]
    assert kernels["share_ratio"].sum() == pytest.approx(1.0)
    assert kernels["instructions_per_cycle"].to_list() == [1.5]
    assert kernels["dram_bytes"].to_list() == [2 * 15 * 32]
    alone = read_profiles("kernels", captures[0])["kernels"]
    assert alone["instructions_per_cycle"].isna().all()


def test_counters_of_another_micro_batch_tell_no_bytes_of_the_kernels(tmp_path):
    """Kernels are timed at the largest scale and counted at the smallest one, whose local batch may be larger."""
    timed = make_profile(tmp_path / "t", "kernels", {"nvprof_trace.csv": TRACE}, tool="nvprof", ranks_per_node=2)
    counted = make_profile(tmp_path / "c", "counters", {"nvprof_metrics.csv": NVPROF}, tool="nvprof")
    assert timed.plan.micro_batch != counted.plan.micro_batch
    captures = ([timed.folder / "capture.json"], [counted.folder / "capture.json"])
    row = read_profiles("kernels", *captures)["kernels"].iloc[0]
    assert row[["dram_bytes", "dram_rate_bytes_per_s"]].isna().all()
    assert OTHER_BATCH(samples=counted.plan.micro_batch, here=timed.plan.micro_batch) in row["reasons"]
