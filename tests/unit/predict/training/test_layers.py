"""The layer list: refusals, counts, and its file."""

import pytest
from pydantic import ValidationError

from hpcai.predict.training.layers import (
    Layer,
    LayerList,
    count_forward_flop,
    count_parameters,
    is_transposed,
    name_layers_without_cost,
)

CONVOLUTION = Layer("conv", "convolution", (8, 8, 3), (4, 4, 5), (3, 3), (2, 2), parameters=140, bias=True)


@pytest.mark.parametrize(
    ("layer", "flop"),
    [
        (CONVOLUTION, 2 * 16 * 5 * 3 * 9),
        (Layer("three axes", "convolution", (4, 4, 4, 2), (4, 4, 4, 6), (3, 3, 3)), 2 * 64 * 2 * 6 * 27),
        (Layer("depthwise", "depthwise", (8, 8, 6), (8, 8, 12), (3, 3)), 2 * 64 * 12 * 9),
        (Layer("transposed", "convolution", (4, 4, 6), (8, 8, 5), (3, 3), (2, 2)), 2 * 16 * 6 * 5 * 9),
        (Layer("dense", "dense", (7,), (5,)), 2 * 7 * 5),
        (Layer("positions", "dense", (10, 7), (10, 5), repeats=3), 3 * 2 * 10 * 7 * 5),
        (Layer("relu", "relu", (8, 8, 3), (8, 8, 3)), 0),
    ],
)
def test_multiply_adds_count_two(layer, flop):
    assert count_forward_flop(layer) == flop


def test_only_convolutions_that_enlarge_are_transposed():
    assert is_transposed(Layer("up", "convolution", (4, 4, 6), (8, 8, 5), (3, 3), (2, 2)))
    assert not is_transposed(CONVOLUTION)
    assert not is_transposed(Layer("more features", "dense", (4,), (8,)))


def test_a_layer_list_survives_its_file():
    network = LayerList(name="n", title="N", layers=(CONVOLUTION,), source="test", not_modelled=("loss",))
    assert LayerList.model_validate_json(network.model_dump_json()) == network
    assert count_parameters(network) == 140


def test_repeated_layers_have_parameters_of_their_own():
    layer = Layer("d", "dense", (2,), (3,), parameters=9, repeats=4)
    assert count_parameters(LayerList(name="n", title="N", layers=(layer,), source="test")) == 36


def test_layers_without_cost_are_named():
    layers = (CONVOLUTION, Layer("attention", "other", (4,), (4,)))
    network = LayerList(name="n", title="N", layers=layers, source="test", not_modelled=("loss",))
    named = name_layers_without_cost(network)
    assert named[0] == "loss"
    assert len(named) == 2
    assert "attention" in named[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": ()}, "kernel"),
        ({"kernel": (3, 3, 3)}, "kernel"),
        ({"strides": (2,)}, "strides"),
        ({"strides": (0, 1)}, "at least 1"),
        ({"output_shape": (4, 4)}, "axes"),
        ({"input_shape": ()}, "shapes"),
        ({"input_shape": (8, 0, 3)}, "at least 1"),
        ({"parameters": -1}, "parameters"),
        ({"repeats": 0}, "repeats"),
        ({"kind": "magic"}, "kind"),
        ({"kind": "depthwise", "output_shape": (4, 4, 4)}, "multiple"),
    ],
)
def test_layers_without_a_cost_are_refused(changes, words):
    good = {"name": "conv", "kind": "convolution", "input_shape": (8, 8, 3), "output_shape": (4, 4, 3)}
    with pytest.raises(ValueError, match=words):
        Layer(**(good | {"kernel": (3, 3)} | changes))


def test_a_file_with_a_misspelt_field_is_refused():
    text = LayerList(name="n", title="N", layers=(CONVOLUTION,), source="test").model_dump_json()
    with pytest.raises(ValidationError, match="stride"):
        LayerList.model_validate_json(text.replace('"strides"', '"stride"'))
