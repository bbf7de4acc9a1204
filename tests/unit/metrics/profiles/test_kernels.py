import math

import pandas as pd
import pytest
from unit.parsers.artefacts import sample

from hpcai.metrics.profiles.kernel_rules import CATEGORIES, HPC_AI500_CATEGORIES, RULE_SET, RULES
from hpcai.metrics.profiles.kernels import categorise, kernel_breakdown, top_kernels
from hpcai.parsers.nsight.systems import read_nsys_kernels

NAMES = {
    "memcpy": ["[CUDA memcpy HtoD]", "[CUDA memcpy Device-to-Host]", "[CUDA memset]", "MEMCPYDtoH"],
    "allreduce": [
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "HorovodAllreduce",
        "HorovodGroupedAllreduce",
    ],
    "other collectives": [
        "ncclDevKernel_AllGather_RING_LL(a)",
        "ncclKernel_Broadcast_RING",
        "HorovodBroadcast",
        "HorovodAllgather",
    ],
    "data arrangement": [
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float>(a)",
        "void at::native::elementwise_kernel<128, 2, void at::native::direct_copy_kernel_cuda(a)>(int)",
        "void at::native::index_elementwise_kernel<128>(a)",
        "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_21copy_device_to_deviceERNS_14TensorIteratorEb",
        "void internal::region_transform_ABC_val<int, 32>(a)",
        "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int>(a)",
        "loop_transpose_fusion_3",
        *("Transpose", "ConcatV2", "SplitV", "StridedSlice", "GatherV2", "Pad", "Tile", "Reshape", "_MklToTf"),
        "ScatterNd",
    ],
    "batch normalisation": [
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(a)",
        "void at::native::batch_norm_transform_input_channels_last_kernel<float>(a)",
        *("FusedBatchNormV3", "FusedBatchNormGradV3", "_FusedBatchNormEx", "_MklNativeFusedBatchNormV3"),
    ],
    "layer normalisation": [
        "void at::native::vectorized_layer_norm_kernel<float>(a)",
        "cuApplyLayerNorm<float>",
        "_MklLayerNorm",
    ],
    "pooling": [
        "void at::native::max_pool_forward_nchw<float, int>(a)",
        "MaxPool3D",
        "AvgPool",
        "_MklMaxPoolGrad",
        "MaxPoolGrad",
    ],
    "convolution": [
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tensor16x8x8_execute_kernel__5x_cudnn",
        "void implicit_convolve_sgemm<float, 128>(a)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(a)",
        "void cudnn::detail::dgrad_engine<float>(a)",
        "void wgrad_alg0_engine<float>(a)",
        "void fft2d_r2c_32x32<float>(a)",
        "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_exp_interior_nhwc_tn_v1",
        "maxwell_scudnn_128x32_relu_small_nn",
        *("Conv2D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "_FusedConv3D", "_MklNativeConv2DBackpropInput"),
        *("_MklNativeFusedConv2D", "DepthwiseConv2dNative", "_MklNativePadWithConv2D"),
    ],
    "GEMM": [
        "ampere_sgemm_32x32_sliced1x4_tn",
        "void splitKreduce_kernel<float>(a)",
        "volta_h884gemm_128x64_ldg8_nn",
        "void gemv2N_kernel<float>(a)",
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT",
        *("MatMul", "BatchMatMulV2", "_MklMatMul", "_FusedMatMul", "Einsum", "XlaDot", "_MklNativeFusedMatMul"),
    ],
    "element-wise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(a)",
        "void elemWiseRNNcell<float>(a)",
        "void Eigen::internal::EigenMetaKernel<float>(a)",
        "fusion_12",
        *("Add", "AddV2", "Mul", "Relu", "ReluGrad", "_MklRelu", "Cast", "BiasAdd", "RandomUniform"),
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1>(a)",
        "input_reduce_fusion_4",
        "Sum",
        "Mean",
        "Max",
        "BiasAddGrad",
        "UnsortedSegmentSum",
    ],
    "softmax": ["void softmax_warp_forward<float>(a)", "Softmax", "SparseSoftmaxCrossEntropyWithLogits"],
    "attention": [
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(a)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::gemm>)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
    ],
    "recurrent": ["void RNN_blockPersist_fp_GRU<float>(a)", "void persistRNN_addBias<float, float>(a)", "CudnnRNNV3"],
    "optimiser": [
        "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18",
        "ResourceApplyAdam",
        "AssignSubVariableOp",
        "ResourceApplyMomentum",
    ],
    "input pipeline": ["IteratorGetNext", "ParallelMapDatasetV2", "DecodeJpeg"],
    "other": [
        "void cudnn::cnn::kern_precompute_indices<false>(a)",
        "Identity",
        "kernel_A",
        "",
        "\x00\ufffd(((",
        "ConvertToCooTensor",
    ],
}


@pytest.mark.parametrize(
    ("category", "name"), [(category, name) for category, names in NAMES.items() for name in names]
)
def test_names_of_kernels_and_operations_have_their_category(category, name):
    assert categorise([name]).item() == category


def test_every_category_has_a_name_here_and_the_eight_of_the_paper_come_first():
    assert set(NAMES) == set(CATEGORIES)
    assert CATEGORIES[:8] == HPC_AI500_CATEGORIES
    assert {category for category, _ in RULES} == set(CATEGORIES) - {"other"}


def test_categories_keep_the_index_of_the_names():
    names = pd.Series(["MatMul", "Relu"], index=[7, 3])
    assert categorise(names).to_dict() == {7: "GEMM", 3: "element-wise"}


def kernels(*rows):
    return pd.DataFrame(rows, columns=["name", "kind", "device", "calls", "total_s"])


KERNELS = kernels(
    ("ampere_sgemm_a", "kernel", "0", 10, 6.0),
    ("ampere_sgemm_b", "kernel", "0", 10, 2.0),
    ("relu_elementwise", "kernel", "0", 5, 1.0),
    ("mystery", "kernel", "0", 1, 0.5),
    ("copy to device", "memcpy", "0", 1, 0.5),
    ("cudaLaunchKernel", "api", "0", 26, 99.0),
)


def counters(*rows):
    table = pd.DataFrame(rows, columns=["name", "launches", "metric", "unit", "mean", "total"])
    return table.assign(device="0", launch=pd.NA, minimum=table["mean"], maximum=table["mean"])


def test_a_breakdown_sums_up_to_one_and_leaves_out_the_host():
    table = kernel_breakdown(KERNELS).set_index("category")
    assert table["share_ratio"].sum() == pytest.approx(1)
    assert table["share_ratio"].to_dict() == pytest.approx(
        {"memcpy": 0.05, "GEMM": 0.8, "element-wise": 0.1, "other": 0.05}
    )
    assert table.index.tolist() == ["memcpy", "GEMM", "element-wise", "other"]
    assert table.loc["GEMM", "calls"] == 20
    assert set(table["rule_set"]) == {RULE_SET}
    assert table[["instructions_per_cycle", "dram_bytes", "dram_rate_bytes_per_s"]].isna().all(axis=None)
    assert (table["counted_ratio"] == 0).all()


def test_counters_are_weighted_by_time_and_scaled_to_the_calls():
    measured = counters(
        ("ampere_sgemm_a", 2, "ipc", "ratio", 3.0, math.nan),
        ("ampere_sgemm_a", 2, "dram_read_transactions", "", 10.0, 20.0),
        ("ampere_sgemm_a", 2, "dram_write_transactions", "", 5.0, 10.0),
        ("ampere_sgemm_b", 10, "ipc", "ratio", 1.0, math.nan),
        ("relu_elementwise", 5, "dram_read_transactions", "", 1.0, 5.0),
    )
    table = kernel_breakdown(KERNELS, measured).set_index("category")
    assert table.loc["GEMM", "instructions_per_cycle"] == pytest.approx((3 * 6 + 1 * 2) / 8)
    assert table.loc["GEMM", "dram_bytes"] == pytest.approx(15 * 32 * 10)
    assert table.loc["GEMM", "dram_rate_bytes_per_s"] == pytest.approx(15 * 32 * 10 / 6)
    assert table.loc["GEMM", "counted_ratio"] == pytest.approx(1)
    # Reads alone are no traffic.
    assert math.isnan(table.loc["element-wise", "dram_bytes"])


def test_calls_without_a_time_are_counted_and_are_in_no_share():
    rows = pd.concat([KERNELS, kernels(("ampere_sgemm_c", "kernel", "0", 4, math.nan))])
    table = kernel_breakdown(rows).set_index("category")
    assert table.loc["GEMM", "untimed_calls"] == 4
    assert table.loc["GEMM", "total_s"] == 8
    assert table["share_ratio"].sum() == pytest.approx(1)
    only = kernel_breakdown(kernels(("mystery", "kernel", "0", 4, math.nan)))
    assert math.isnan(only["share_ratio"].item())


def test_the_largest_kernels_are_joined_over_devices():
    rows = pd.concat([KERNELS, kernels(("ampere_sgemm_b", "kernel", "1", 10, 5.0))])
    table = top_kernels(rows, 2)
    assert table["name"].tolist() == ["ampere_sgemm_b", "ampere_sgemm_a"]
    assert table["mean_s"].iloc[0] == pytest.approx(7 / 20)
    assert table["share_ratio"].iloc[0] == pytest.approx(7 / 15)


def test_the_published_categories_of_resnet18_hold():
    """The seven patterns that come with the sample agree with these rules in every row.

    The sample's category "other" is a helper of cuDNN (kern_precompute_indices); reduce_kernel has its own category.
    """
    reading = read_nsys_kernels(sample("nsys/resnet18_cuda_gpu_kern_sum.csv"))
    table = kernel_breakdown(reading.table).set_index("category")
    expected = {
        "data arrangement": (65568324, 2211),
        "batch normalisation": (59781077, 1300),
        "pooling": (20741337, 65),
        "convolution": (429982770, 2684),
        "GEMM": (113985976, 698),
        "element-wise": (61054313, 1626),
        "reduction": (763966, 65),
        "other": (86336, 85),
    }
    assert set(table.index) == set(expected)
    for category, (total_ns, calls) in expected.items():
        assert table.loc[category, "total_s"] == pytest.approx(total_ns * 1e-9)
        assert table.loc[category, "calls"] == calls
    rows = reading.table.groupby(categorise(reading.table["name"])).size()
    assert rows.to_dict() == {
        "data arrangement": 2,
        "batch normalisation": 1,
        "pooling": 1,
        "convolution": 22,
        "GEMM": 5,
        "element-wise": 3,
        "reduction": 1,
        "other": 1,
    }
    moved = reading.table["name"].str.contains("gemm|splitKreduce") & (
        categorise(reading.table["name"]) == "convolution"
    )
    assert reading.table["total_s"][moved].sum() == pytest.approx(354990258e-9)


def test_inner_steps_of_convolutions_count_as_gemm():
    """398 winograd launches come with 398 GEMMs, 170 forward Fourier transforms with 170: a limit of rules by name."""
    table = read_nsys_kernels(sample("nsys/resnet18_cuda_gpu_kern_sum.csv")).table
    calls = {
        part: table["calls"][table["name"].str.contains(part)].sum()
        for part in ("cgemm", "fft2d_r2c", "winogradForwardData")
    }
    assert calls["winogradForwardData"] == 398
    inner = table["name"].str.contains("simt_sgemm_128x32|magma_sgemmEx")
    assert table["calls"][inner].sum() == 398
    assert calls["cgemm"] == 170


def test_the_published_categories_of_a_recurrent_network_hold():
    table = kernel_breakdown(read_nsys_kernels(sample("nsys/gru_cuda_gpu_kern_sum.csv")).table).set_index("category")
    totals = {"recurrent": 8914323, "GEMM": 2144477, "data arrangement": 113408, "element-wise": 39104}
    assert table["total_s"].to_dict() == pytest.approx({name: total * 1e-9 for name, total in totals.items()})


def test_ratios_of_a_category_are_weighted_by_the_time_of_its_counted_kernels():
    times = {"a_sgemm": 3.0, "b_sgemm": 1.0, "c_sgemm": 6.0}
    kernels = pd.DataFrame([{"name": name, "calls": 1, "total_s": total_s} for name, total_s in times.items()])
    rows = [
        {"name": name, "device": "0", "launches": 1, "metric": metric, "unit": unit, "mean": value, "total": value}
        for name, metric, unit, value in (
            ("a_sgemm", "achieved_occupancy", "ratio", 0.8),
            ("b_sgemm", "achieved_occupancy", "ratio", 0.4),
            ("a_sgemm", "dram_utilization", "level", 6.0),
        )
    ]
    row = kernel_breakdown(kernels, pd.DataFrame(rows).assign(minimum=0.0, maximum=1.0)).iloc[0]
    assert row["occupancy_ratio"] == pytest.approx((0.8 * 3 + 0.4) / 4)
    assert row["dram_utilisation"] == 6.0
    assert math.isnan(row["load_efficiency_ratio"])
