import math

import pandas as pd
import pytest
from unit.parsers.artefacts import sample

from hpcai.metrics.profiles.counters import (
    NOT_COUNTED,
    CountedWork,
    counted_flop,
    counted_work,
    counters_per_kernel,
    memory_traffic,
)
from hpcai.metrics.profiles.tensor_cores import architecture_of
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nvprof.reader import read_nvprof_counters

SASS = "{unit}__sass_thread_inst_executed_op_{operation}_pred_on.sum"


def launch(number=0, name="kernel", launches=1, **metrics):
    """One launch as Nsight Compute counts it; names are given with "_" for "." before sum, avg and the like."""
    return [
        {
            "name": name,
            "device": "0",
            "process": "1",
            "launch": number,
            "launches": launches,
            "unit": unit,
            "metric": metric,
            "mean": value,
            "minimum": value,
            "maximum": value,
            "total": launches * value,
        }
        for metric, (value, unit) in metrics.items()
    ]


def table(*launches):
    return pd.DataFrame([row for rows in launches for row in rows])


def counts(**operations):
    """Instructions of all precisions; those that are not given are 0."""
    every = [f"{letter}{kind}" for letter in "hfd" for kind in ("add", "mul", "fma")]
    return {SASS.format(unit="sm", operation=operation): (operations.get(operation, 0), "") for operation in every}


def pipe(value, kind=""):
    return {f"sm__inst_executed_pipe_tensor{kind}.sum": (value, "")}


def test_work_is_add_plus_mul_plus_twice_fma():
    count = counted_flop(table(launch(**counts(fadd=1, fmul=2, ffma=10, dadd=3, dfma=1, hfma=4), **pipe(0))), "volta")
    assert (count.fp32, count.fp64, count.fp16, count.tensor) == (23, 5, 8, 0)
    assert count.total == 36
    assert any("lower bound" in note for note in count.notes)


def test_counters_of_multiprocessors_and_of_their_parts_are_never_added():
    parts = {name.replace("sm__", "smsp__"): value for name, value in counts(fadd=7).items()}
    both = launch(**counts(fadd=7), **parts, **pipe(0))
    assert counted_flop(table(both), "volta").fp32 == 7
    assert counted_flop(table(launch(**parts, **pipe(0))), "volta").fp32 == 7


def test_work_that_was_not_counted_is_missing_and_not_zero():
    partial = counts(ffma=5)
    del partial[SASS.format(unit="sm", operation="fmul")]
    count = counted_flop(table(launch(**partial)), "volta")
    assert math.isnan(count.fp32)
    assert count.fp64 == 0
    assert math.isnan(count.tensor)
    assert math.isnan(count.total)
    assert count.counted == 0
    assert NOT_COUNTED(precision="fp32", lacking=1, rows=1) in count.notes
    nothing = counted_flop(table(launch(Duration=(1e-6, "s"))), "volta")
    assert all(
        math.isnan(value) for value in (nothing.fp16, nothing.fp32, nothing.fp64, nothing.tensor, nothing.counted)
    )


def test_one_launch_without_counters_makes_the_total_missing():
    count = counted_flop(table(launch(0, **counts(fadd=7), **pipe(0)), launch(1, Duration=(1e-6, "s"))), "volta")
    assert math.isnan(count.fp32)


@pytest.mark.parametrize(
    ("architecture", "name", "kind", "instructions", "flop"),
    [
        ("volta", "volta_h884gemm_128x64", "", 10, 5120),
        ("volta", "anything", "_op_hmma", 10, 5120),
        ("turing", "turing_h1688gemm_128x128", "_op_hmma", 10, 20480),
        ("turing", "volta_h884gemm_128x64", "_op_hmma", 10, math.nan),
        ("ampere", "ampere_s16816gemm_fp16_128x64", "", 10, 40960),
        ("ampere", "cutlass_80_tensorop_s1688gemm_64x64", "_op_hmma", 10, 20480),
        ("ampere", "sm80_xmma_fprop_implicit_gemm_tensor16x8x8_kernel", "", 10, 20480),
        ("ampere", "ampere_d884gemm_64x64", "", 10, 5120),
        ("ampere", "a_kernel_whose_name_tells_nothing", "", 10, math.nan),
        ("ampere", "a_kernel_whose_name_tells_nothing", "", 0, 0),
        ("ada", "ampere_s16816gemm_fp16_128x64", "_op_hmma", 10, math.nan),
        ("hopper", "sm90_xmma_gemm_f16f16_tilesize64x128x64_warpgroupsize1x1x1", "_op_hmma", 10, math.nan),
        ("blackwell", "cutlass3x_sm100_tensorop_s64x256x32gemm", "_subpipe_hmma", 10, math.nan),
        ("blackwell", "elementwise", "_subpipe_hmma", 0, 0),
        ("unknown", "ampere_s16816gemm_fp16_128x64", "", 10, math.nan),
        ("pre-volta", "maxwell_sgemm", "", 0, 0),
    ],
)
def test_tensor_instructions_count_by_architecture_and_shape(architecture, name, kind, instructions, flop):
    count = counted_flop(table(launch(name=name, **counts(), **pipe(instructions, kind))), architecture)
    assert count.tensor == pytest.approx(flop, nan_ok=True)
    assert any("not countable" in note for note in count.notes) == math.isnan(flop)


def test_double_precision_matrix_instructions_are_added_on_ampere():
    metrics = {**counts(), **pipe(0, "_op_hmma"), **pipe(10, "_op_dmma")}
    assert counted_flop(table(launch(**metrics)), "ampere").tensor == 5120
    assert math.isnan(counted_flop(table(launch(**metrics)), "hopper").tensor)


def test_operations_that_the_hardware_counted_are_preferred():
    operations = {
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum": (1000.0, ""),
        "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum": (600.0, ""),
        "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_on.sum": (400.0, ""),
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": (30.0, ""),
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on.sum": (4.0, ""),
        "sm__ops_path_tensor_src_int8.sum": (9e9, ""),
        "sm__ops_path_tensor_src_int8_dst_int32.sum": (9e9, ""),
    }
    for architecture in ("ampere", "hopper", "blackwell"):
        count = counted_flop(table(launch(**counts(), **operations, **pipe(77))), architecture)
        assert count.tensor == 1034


def test_constant_moves_of_ampere_are_no_work():
    moves = counted_flop(table(launch(**counts(hfma=3200), **pipe(100))), "ampere")
    assert (moves.tensor, moves.fp16, moves.constant_moves) == (0, 0, 6400)
    leftover = counted_flop(table(launch(**counts(hfma=3200), **pipe(160))), "ampere")
    assert (leftover.tensor, leftover.fp16) == (0, 0)
    real = counted_flop(table(launch(name="ampere_s16816gemm", **counts(), **pipe(100))), "ampere")
    assert (real.tensor, real.constant_moves) == (100 * 4096, 0)
    # Half-precision work outside the tensor pipe stays.
    plain = counted_flop(table(launch(**counts(hfma=3200), **pipe(0))), "ampere")
    assert (plain.fp16, plain.tensor) == (6400, 0)
    unknown = counted_flop(table(launch(name="ampere_s16816gemm", **pipe(100))), "ampere")
    assert math.isnan(unknown.tensor)


def test_an_architecture_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="expected one of pre-volta"):
        counted_flop(table(launch(**counts())), "pascal")


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [("3.7", "pre-volta"), ("6.0", "pre-volta"), ("7.0", "volta"), ("7.5", "turing"), ("8.0", "ampere"),
     ("8.6", "ampere ga10x"), ("8.9", "ada"), ("9.0", "hopper"), ("10.0", "blackwell"), ("12.0", "blackwell"),
     ("", "unknown"), ("8.0, 9.0", "unknown"), ("99.0", "unknown")],
)  # fmt: skip
def test_architectures_follow_the_compute_capability(capability, architecture):
    assert architecture_of(capability) == architecture


def nvprof(**metrics):
    return table(launch(launches=3, **{name: (value, "") for name, value in metrics.items()})).drop(columns="process")


def test_nvprof_counts_once():
    parts = {"flop_count_sp_add": 1, "flop_count_sp_mul": 2, "flop_count_sp_fma": 10}
    assert counted_flop(nvprof(flop_count_sp=23, **parts), "pre-volta").fp32 == 69
    assert counted_flop(nvprof(**parts), "pre-volta").fp32 == 69
    contradiction = counted_flop(nvprof(flop_count_sp=99, **parts), "pre-volta")
    assert math.isnan(contradiction.fp32)
    assert any("inconsistent with its parts" in note for note in contradiction.notes)


def test_nvprof_does_not_know_tensor_cores_unless_they_were_idle():
    assert math.isnan(counted_flop(nvprof(flop_count_hp=0), "volta").tensor)
    assert counted_flop(nvprof(flop_count_hp=0, tensor_precision_fu_utilization=0), "volta").tensor == 0
    assert math.isnan(counted_flop(nvprof(flop_count_hp=0, tensor_precision_fu_utilization=3), "volta").tensor)


@pytest.mark.parametrize(
    ("metrics", "read", "write", "both"),
    [
        ({"dram__bytes.sum": 100}, math.nan, math.nan, 100),
        ({"dram__bytes_read.sum": 60, "dram__bytes_write.sum": 40}, 60, 40, 100),
        ({"dram__bytes_op_read.sum": 60, "dram__bytes_op_write.sum": 40}, 60, 40, 100),
        ({"dram__sectors_read.sum": 2, "dram__sectors_write.sum": 1}, 64, 32, 96),
        ({"dram_read_transactions": 2, "dram_write_transactions": 1}, 64, 32, 96),
        ({"dram_read_bytes": 60, "dram_write_bytes": 40, "dram_read_transactions": 2}, 60, 40, 100),
        ({"dram__bytes_read.sum": 60}, 60, math.nan, math.nan),
        ({"dram__sectors.sum": 3}, math.nan, math.nan, 96),
    ],
)
def test_memory_traffic_in_all_its_names(metrics, read, write, both):
    traffic = memory_traffic(table(launch(**{name: (value, "byte") for name, value in metrics.items()})))
    found = (traffic.dram_read_bytes, traffic.dram_write_bytes, traffic.dram_bytes)
    assert found == pytest.approx((read, write, both), nan_ok=True)


def test_intensity_and_rate_are_quotients_of_totals():
    one = {**counts(fadd=100), **pipe(0), "dram__bytes.sum": (10, "byte"), "gpu__time_duration.sum": (1.0, "s")}
    two = {**counts(fadd=100), **pipe(0), "dram__bytes.sum": (90, "byte"), "gpu__time_duration.sum": (3.0, "s")}
    work = counted_work(table(launch(0, **one), launch(1, **two)), "volta")
    assert (work.work_flop, work.dram_bytes, work.time_s) == (200, 100, 4)
    assert work.intensity_flop_per_byte == 2
    assert work.rate_flop_per_s == 50
    assert work.dram_rate_bytes_per_s == 25
    assert math.isnan(CountedWork(1.0, 0.0, 0.0).intensity_flop_per_byte)
    assert math.isnan(CountedWork(1.0, 0.0, 0.0).rate_flop_per_s)


def test_times_of_kernels_take_the_best_source_of_each_launch():
    cycles = {"sm__cycles_elapsed.avg": (2e6, ""), "sm__cycles_elapsed.avg.per_second": (1e9, "Hz")}
    counters = table(
        launch(0, "a", **{"gpu__time_duration.sum": (1e-3, "s"), **cycles}),
        launch(1, "a", **cycles),
        launch(2, "b", Duration=(3e-3, "s")),
        launch(3, "c", **{"gpu__time_duration.sum": (1e-3, "s")}),
        launch(4, "c", **{"dram__bytes.sum": (8, "byte")}),
    )
    time_s = {name: counted_work(rows, "volta").time_s for name, rows in counters.groupby("name")}
    assert time_s == pytest.approx({"a": 3e-3, "b": 3e-3, "c": math.nan}, nan_ok=True)
    assert counters_per_kernel(counters)["launches"].to_dict() == {"a": 2, "b": 1, "c": 2}


def test_expected_values_of_the_attention_sample():
    counters = read_ncu(sample("ncu/details_bert_attention_a100.csv")).table
    count = counted_flop(counters, "ampere")
    assert (count.fp32, count.fp64, count.tensor) == (68457856, 0, 0)
    assert (count.fp16, count.constant_moves) == (0, 983440)
    totals = counters.groupby("metric")["total"].sum()
    for operation, total in (("fadd", 1051232), ("fmul", 1635104), ("ffma", 32885760), ("hfma", 491720)):
        assert totals[SASS.format(unit="sm", operation=operation)] == total
    assert totals["sm__inst_executed_pipe_tensor.sum"] == 15427
    traffic = memory_traffic(counters)
    assert (traffic.dram_bytes, traffic.l2_bytes, traffic.l1_bytes) == (2406656, 18328864, 7185472)
    names = counters["name"]
    assert names.nunique() == 12
    assert counted_work(counters, "ampere").time_s == pytest.approx(180.096e-6, rel=1e-5)
    for part, launches, flop, time_us in (
        ("sgemm", 6, 65273856, 70.080),
        ("elementwise", 14, 2696480, 74.816),
        ("splitKreduce", 4, 215040, 20.608),
        ("softmax", 1, 263680, 5.216),
        ("reduce_kernel<", 1, 8800, 9.376),
    ):
        is_it = names.str.contains(part, regex=False) & ((part != "reduce_kernel<") | ~names.str.contains("splitK"))
        rows = counters[is_it]
        sums = (
            counters_per_kernel(rows)["launches"].sum(),
            counted_flop(rows, "ampere").fp32,
            counted_work(rows, "ampere").time_s,
        )
        assert sums == pytest.approx((launches, flop, time_us * 1e-6), rel=1e-5)


def test_expected_values_of_the_linear_sample():
    counters = read_ncu(sample("ncu/details_linear_small_a100.csv")).table
    assert counted_flop(counters, "ampere").fp32 == 145424
    by_kernel = [counted_flop(rows, "ampere").fp32 for _, rows in counters.groupby("name", sort=False)]
    assert by_kernel == [145408, 16]
    assert counted_work(counters, "ampere").time_s == pytest.approx(11712e-9)
    assert memory_traffic(counters).dram_bytes == 768
    without = counters[counters["metric"] != "gpu__time_duration.sum"]
    assert counted_work(without, "ampere").time_s == pytest.approx(11.7120e-6, rel=1e-5)


def test_expected_times_of_the_other_samples():
    for name, total_ns in (
        ("details_fp8_gemm_b200_baseunits.log", 406240),
        ("details_climate_a100_scaledunits.csv", 31093590),
        ("raw_flash_sdpa_b200.csv", 11869152),
        ("details_gemm_tiled_rtx5070_bom.csv", 10195552),
        ("details_nvtx_paddle_linear_mixed_stdout.csv", 11776),
        ("summary_per_kernel_timing_a100.csv", 7695296 + 9318816),
    ):
        counters = read_ncu(sample(f"ncu/{name}")).table
        assert counted_work(counters, "ampere").time_s == pytest.approx(total_ns * 1e-9)


def test_samples_without_counters_have_no_work():
    counters = read_ncu(sample("ncu/raw_flash_sdpa_b200.csv")).table
    assert math.isnan(counted_flop(counters, "blackwell").counted)
    assert math.isnan(memory_traffic(counters).dram_bytes)
    tiled = memory_traffic(read_ncu(sample("ncu/details_gemm_tiled_rtx5070_bom.csv")).table)
    assert (tiled.dram_read_bytes, tiled.dram_write_bytes) == (53261312, 3377920)
    summary = memory_traffic(read_ncu(sample("ncu/summary_per_kernel_metrics_a100.csv")).table)
    assert summary.dram_read_bytes == pytest.approx(2580037632 + 1287485952)


@pytest.mark.parametrize(
    ("name", "fp32"),
    [
        ("metrics_dcgan_fp16_tegrax1.csv", 17549214),
        ("metrics_jacobi_k20c.csv", 8080612320),
        ("metrics_all_j3d27pt_k20c.csv", 72269772288),
        ("events_and_metrics_cheby_k40c.csv", 20693556000),
    ],
)
def test_expected_work_of_the_nvprof_samples(name, fp32):
    assert counted_flop(read_nvprof_counters(sample(f"nvprof/{name}")).table, "pre-volta").fp32 == fp32


def test_expected_traffic_of_the_nvprof_samples():
    stencil = memory_traffic(read_nvprof_counters(sample("nvprof/metrics_all_j3d27pt_k20c.csv")).table)
    assert stencil.dram_bytes == 5806887744
    transpose = memory_traffic(read_nvprof_counters(sample("nvprof/metrics_transpose_v100s_noprologue.csv")).table)
    assert (transpose.dram_read_bytes, transpose.dram_write_bytes) == (13791449 * 32, 13716911 * 32)


def test_how_well_kernels_use_the_device_as_nvprof_says():
    """A real file of all metrics: occupancy 0.994198, loads 0 %, stores 78.154206 %, DRAM "Low (3)"."""
    kernels = counters_per_kernel(read_nvprof_counters(sample("nvprof/metrics_all_j3d27pt_k20c.csv")).table)
    row = kernels.iloc[0]
    assert row["instructions_per_cycle"] == pytest.approx(2.489326)
    assert row["occupancy_ratio"] == pytest.approx(0.994198)
    assert (row["load_efficiency_ratio"], row["dram_utilisation"]) == (0.0, 3.0)
    assert row["store_efficiency_ratio"] == pytest.approx(0.78154206)


def test_nsight_compute_says_the_same_under_other_names():
    stem = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"

    def counted(number, time_s, occupancy, dram):
        return launch(
            number,
            **{
                "gpu__time_duration.sum": (time_s, "s"),
                "sm__warps_active.avg.pct_of_peak_sustained_active": (occupancy, "ratio"),
                "dram__throughput.avg.pct_of_peak_sustained_elapsed": (dram, "ratio"),
                stem.format("ld"): (0.5, "ratio"),
            },
        )

    row = counters_per_kernel(table(counted(0, 1.0, 0.2, 0.1), counted(1, 3.0, 0.6, 0.5))).iloc[0]
    assert row["occupancy_ratio"] == pytest.approx(0.5)  # weighted by time
    assert row["dram_utilisation"] == pytest.approx(10 * 0.4)
    assert row["load_efficiency_ratio"] == pytest.approx(0.5)
    assert math.isnan(row["store_efficiency_ratio"])
    assert math.isnan(row["instructions_per_cycle"])
