"""Times of layers by regressors: together they are the step that the kernels sum up to."""

import numpy as np
import pytest
from unit.predict.kernels.made_regressors import make_constant_regressor

from hpcai.core.errors import ConfigError
from hpcai.metrics.scaling.model_limits import NOT_COVERED
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.layer_times import time_layers_by_kernels
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.training.networks import build_network
from hpcai.predict.training.step import Scenario, StepModel, combine_step

VGG = build_network("vgg11", "cifar10")
REGRESSORS = {kernel: make_constant_regressor(kernel, 1e-3 * (1 + place)) for place, kernel in enumerate(KERNELS)}


def test_layers_sum_up_to_the_step_of_the_kernels():
    times, update_s = time_layers_by_kernels(VGG, [4, 8, 4], REGRESSORS)
    assert times.forward_s.shape == (3, len(VGG.layers))
    stages = estimate_step(VGG, 8, REGRESSORS).stage_s
    np.testing.assert_allclose(times.all_forward_s.sum(-1)[1], stages["forward"])
    np.testing.assert_allclose(times.input_gradient_s.sum(-1)[1], stages["input gradient"])
    np.testing.assert_allclose(times.weight_gradient_s.sum(-1)[1], stages["weight gradient"])
    np.testing.assert_allclose(times.elementwise_backward_s.sum(-1)[1], stages["element-wise backward"])
    assert times.forward_s[0].tolist() == times.forward_s[2].tolist()
    # Each tensor is updated by itself, so that layers add up to the step only if its update is counted per layer.
    assert (update_s > 0).all()


def test_the_step_says_that_its_times_are_of_kernels():
    scenario = Scenario(
        peak_flop_per_s=1e12, memory_bytes_per_s=1e11, link_bit_per_s=1e10, latency_s=1e-6, ranks=2, batch=4
    )
    times, update_s = time_layers_by_kernels(VGG, [4], REGRESSORS)
    step = combine_step(VGG, times, scenario, StepModel(), update_s, "kernel regressors")
    assert "kernel regressors" in step.method
    assert "roofline" not in step.method
    np.testing.assert_allclose(step.update_s, update_s)
    np.testing.assert_allclose(step.compute_s, times.all_forward_s.sum() + times.all_backward_s.sum() + update_s.sum())


def test_kernels_that_cover_too_little_are_refused():
    few = {kernel: one for kernel, one in REGRESSORS.items() if not kernel.startswith("conv")}
    with pytest.raises(ConfigError, match=f"vgg11.*{NOT_COVERED.pattern}"):
        time_layers_by_kernels(VGG, [4], few)


def test_a_batch_without_samples_is_refused():
    with pytest.raises(ConfigError, match="batch of 0"):
        time_layers_by_kernels(VGG, [0], REGRESSORS)
