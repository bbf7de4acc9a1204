"""Random cases of kernels: reproducible, distinct, within their ranges; costs by hand."""

import pytest

from hpcai.predict.kernels.cases import FAMILIES, INPUTS, KERNELS, LARGEST_MOVED_BYTES, LARGEST_WORK_FLOP, sample_cases

CONVOLUTION = {"batch": 2, "edge": 5, "channels_in": 3, "channels_out": 4, "kernel_edge": 3, "stride": 2}
IMAGE = {"batch": 2, "edge": 5, "channels_in": 3}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_longer_list_starts_with_the_shorter_one(kernel):
    assert sample_cases(kernel, 40, seed=7).equals(sample_cases(kernel, 60, seed=7).head(40))


@pytest.mark.parametrize("kernel", KERNELS)
def test_cases_are_distinct_whole_and_within_ranges(kernel):
    cases = sample_cases(kernel, 300, seed=1)
    assert tuple(cases.columns) == KERNELS[kernel].inputs
    assert not cases.duplicated().any()
    assert all(dtype == "int64" for dtype in cases.dtypes)
    for name, (smallest, largest) in KERNELS[kernel].ranges.items():
        assert cases[name].between(smallest, largest).all()
    assert (KERNELS[kernel].work_flop(cases) < LARGEST_WORK_FLOP).all()
    assert (KERNELS[kernel].moved_bytes(cases) < LARGEST_MOVED_BYTES).all()


@pytest.mark.parametrize("kernel", FAMILIES["convolution2d"] + FAMILIES["convolution3d"])
def test_strides_are_at_most_the_kernel_edge(kernel):
    cases = sample_cases(kernel, 300, seed=1)
    assert set(cases["kernel_edge"]) == {1, 3, 5}
    assert (cases["stride"] <= cases["kernel_edge"]).all()
    assert (cases["stride"] >= 1).all()


def test_another_seed_or_kernel_has_other_cases():
    assert not sample_cases("copy", 20, seed=1).equals(sample_cases("copy", 20, seed=2))
    first, second = (sample_cases(f"relu_{stage}", 20, seed=1) for stage in ("forward", "backward"))
    assert not first.equals(second)


def test_half_of_the_convolutions_have_many_channels():
    cases = sample_cases("conv2d_forward", 1000, seed=1)
    assert 0.35 < (cases["channels_in"] > 128).mean() < 0.65


def test_every_kernel_is_measured_by_one_family_and_has_known_inputs():
    assert sorted(kernel for kernels in FAMILIES.values() for kernel in kernels) == sorted(KERNELS)
    assert {name for kernel in KERNELS.values() for name in kernel.inputs} == set(INPUTS)


@pytest.mark.parametrize("kernel", FAMILIES["convolution2d"])
def test_cost_of_a_convolution(kernel):
    # 5 positions with stride 2 leave 3.
    assert KERNELS[kernel].work_flop(CONVOLUTION) == 2 * (2 * 9) * 9 * 3 * 4
    assert KERNELS[kernel].moved_bytes(CONVOLUTION) == 4 * (2 * 25 * 3 + 2 * 9 * 4 + 9 * 3 * 4)


@pytest.mark.parametrize("kernel", FAMILIES["convolution3d"])
def test_cost_of_a_convolution_in_three_dimensions(kernel):
    assert KERNELS[kernel].work_flop(CONVOLUTION) == 2 * (2 * 27) * 27 * 3 * 4
    assert KERNELS[kernel].moved_bytes(CONVOLUTION) == 4 * (2 * 125 * 3 + 2 * 27 * 4 + 27 * 3 * 4)


def test_cost_of_a_product():
    case = {"m": 2, "n": 3, "k": 5}
    assert KERNELS["gemm_forward"].work_flop(case) == 60
    assert KERNELS["gemm_forward"].moved_bytes(case) == 4 * (6 + 10 + 15)


@pytest.mark.parametrize(
    ("kernel", "passes"),
    [("relu_forward", 2), ("relu_backward", 3), ("batch_norm_forward", 3), ("batch_norm_backward", 5)],
)
def test_elementwise_kernels_move_the_passes_of_the_full_cost_model(kernel, passes):
    assert KERNELS[kernel].moved_bytes(IMAGE) == passes * 4 * 2 * 25 * 3


def test_pooling_reads_all_and_writes_whole_windows():
    assert KERNELS["max_pool_forward"].moved_bytes(IMAGE) == 4 * (2 * 25 * 3 + 2 * 4 * 3)


def test_cost_of_updates():
    assert KERNELS["sgd"].moved_bytes({"parameters": 10}) == 160
    assert KERNELS["copy"].moved_bytes({"size_bytes": 10}) == 20
    assert KERNELS["copy"].work_flop({"size_bytes": 10}) == 0
