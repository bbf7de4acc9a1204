"""Counting operations."""

import pytest
from unit.training.training_plans import make_plan

from hpcai.training.work import computed_flop, sixfold_flop
from hpcai.workloads.cosmoflow.training import CosmoFlow

OFFICIAL = {"conv_layers": 5, "base_filters": 32, "dense": (128, 64)}


@pytest.mark.parametrize(("kernel", "forward_gmac"), [(3, 34.43), (2, 10.20)])
def test_forward_work_of_the_official_network(kernel: int, forward_gmac: float) -> None:
    layers = CosmoFlow(make_plan(data={"edge": 128}, model={**OFFICIAL, "kernel": kernel})).layers()
    assert sum(layer.forward_mac for layer in layers) / 1e9 == pytest.approx(forward_gmac, abs=0.005)
    assert sixfold_flop(layers, 1) == 6 * sum(layer.forward_mac for layer in layers)


def test_work_of_the_small_network_and_growth_with_the_batch() -> None:
    model = {"conv_layers": 5, "base_filters": 8, "dense": (32, 16)}
    layers = CosmoFlow(make_plan(data={"edge": 32}, model=model)).layers()
    assert sum(layer.forward_mac for layer in layers) / 1e6 == pytest.approx(55, abs=0.5)
    assert computed_flop(layers, 6) == 6 * computed_flop(layers, 1)


def test_the_first_layer_has_no_gradient_of_its_input() -> None:
    layers = CosmoFlow(make_plan()).layers()
    assert sixfold_flop(layers, 1) - computed_flop(layers, 1) == 2 * layers[0].forward_mac
