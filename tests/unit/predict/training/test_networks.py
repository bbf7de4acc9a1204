"""Layers of the published networks: golden values of their canonical forms."""

from collections import Counter

import pytest

from hpcai.core.errors import ConfigError
from hpcai.predict.training.layers import count_forward_flop, count_parameters
from hpcai.predict.training.networks import build_network


@pytest.mark.parametrize(
    ("name", "data", "parameters", "forward_gflop"),
    [
        ("vgg11", "cifar10", 9_750_922, 0.3066),
        ("vgg11", "imagenet", 132_863_336, 15.2182),
        ("vgg16", "cifar10", 15_245_130, 0.6275),
        ("vgg16", "imagenet", 138_357_544, 30.9405),
        ("resnet50", "cifar10", 23_520_842, 2.5957),
        ("resnet50", "imagenet", 25_557_032, 8.1784),
        ("densenet121", "cifar10", 6_956_298, 1.7767),
        ("densenet121", "imagenet", 7_978_856, 5.6683),
    ],
)
def test_parameters_and_work_are_those_of_the_canonical_networks(name, data, parameters, forward_gflop):
    network = build_network(name, data)
    assert count_parameters(network) == parameters
    assert round(sum(count_forward_flop(layer) for layer in network.layers) / 1e9, 4) == forward_gflop


def _of(name, data, kind):
    return [layer for layer in build_network(name, data).layers if layer.kind == kind]


def test_vgg_layers_have_the_published_sizes():
    sixteen = [1792, 36928, 73856, 147584, 295168, 590080, 590080, 1180160, *[2359808] * 5]
    eleven = [1792, 73856, 295168, 590080, 1180160, *[2359808] * 3]
    assert [layer.parameters for layer in _of("vgg16", "imagenet", "convolution")] == sixteen
    assert [layer.parameters for layer in _of("vgg11", "cifar10", "convolution")] == eleven
    assert [layer.parameters for layer in _of("vgg16", "imagenet", "dense")] == [102764544, 16781312, 4097000]
    assert [layer.parameters for layer in _of("vgg11", "cifar10", "dense")] == [262656, 262656, 5130]
    assert len(_of("vgg16", "cifar10", "max_pool")) == 5


def _sum_by_edge(name, kind, side):
    sums = Counter()
    for layer in _of(name, "imagenet", kind):
        sums[getattr(layer, side)[0]] += layer.parameters
    return dict(sums)


def test_resnet_parameters_by_output_size():
    assert len(_of("resnet50", "imagenet", "convolution")) == len(_of("resnet50", "imagenet", "batch_norm")) == 53
    convolutions = {112: 9408, 56: 245760, 28: 1310720, 14: 7471104, 7: 14417920}
    norms = {112: 128, 56: 3072, 28: 7424, 14: 20992, 7: 21504}
    assert _sum_by_edge("resnet50", "convolution", "output_shape") == convolutions
    assert _sum_by_edge("resnet50", "batch_norm", "output_shape") == norms
    assert sum(convolutions.values()) == 23_454_912
    assert sum(norms.values()) == 53_120
    assert [layer.parameters for layer in _of("resnet50", "imagenet", "dense")] == [2_049_000]
    assert [layer.parameters for layer in _of("resnet50", "cifar10", "dense")] == [20_490]
    assert sum(layer.output_shape[-1] for layer in _of("resnet50", "imagenet", "convolution")) == 26_560


def test_densenet_parameters_by_input_size():
    assert len(_of("densenet121", "imagenet", "convolution")) == 120
    assert len(_of("densenet121", "imagenet", "batch_norm")) == 121
    assert len(_of("densenet121", "cifar10", "batch_norm")) == 120
    assert _sum_by_edge("densenet121", "convolution", "input_shape") == {
        224: 9408, 56: 364544, 28: 1040384, 14: 3325952, 7: 2129920,
    }  # fmt: skip
    assert _sum_by_edge("densenet121", "batch_norm", "input_shape") == {
        112: 128, 56: 3776, 28: 11392, 14: 38144, 7: 30208,
    }  # fmt: skip
    assert [layer.parameters for layer in _of("densenet121", "imagenet", "dense")] == [1_025_000]


@pytest.mark.parametrize("name", ["vgg16", "resnet50", "densenet121"])
@pytest.mark.parametrize("data", ["cifar10", "imagenet"])
def test_only_the_first_layer_needs_no_input_gradient(name, data):
    assert [layer.needs_input_gradient for layer in build_network(name, data).layers].index(True) == 1
    assert sum(not layer.needs_input_gradient for layer in build_network(name, data).layers) == 1


@pytest.mark.parametrize("name", ["vgg11", "resnet50", "densenet121"])
def test_each_layer_begins_where_one_before_ended(name):
    layers = build_network(name, "imagenet").layers
    seen = {layers[0].input_shape}
    for layer in layers:
        # Joining two branches and flattening change a shape without a layer of their own.
        assert layer.input_shape in seen or layer.kind in ("concat", "dense")
        seen.add(layer.output_shape)


@pytest.mark.parametrize(("name", "data"), [("alexnet", "cifar10"), ("vgg16", "mnist")])
def test_unknown_networks_are_refused_with_the_choice(name, data):
    with pytest.raises(ConfigError, match="choose from"):
        build_network(name, data)
