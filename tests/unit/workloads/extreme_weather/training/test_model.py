"""The network: numbers of parameters, shapes, types, and the golden count of multiply-adds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.extreme_weather.training.detector_plans import detector, detector_plan

from hpcai.config.runs import RunPlan
from hpcai.training.workload import Streams
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherBenchmark
from hpcai.workloads.extreme_weather.training.counting import detector_layers
from hpcai.workloads.extreme_weather.training.model import HEAD, PYRAMID, build_detector, kernels

OFFICIAL = "config/benchmarks/extreme_weather.yaml"


def build(plan: RunPlan, policy: str = "float32", seed: int = 1) -> keras.Model:
    return build_detector(plan.benchmark, plan, policy, seed)


def count(variables: list) -> int:
    return int(sum(np.prod(variable.shape) for variable in variables))


@pytest.fixture(scope="module")
def official_model() -> keras.Model:
    # The weights do not depend on the image.
    return build(detector_plan(OFFICIAL, ranks=64, data={"height": 64, "width": 96}))


def test_parameters_at_full_width(official_model: keras.Model) -> None:
    model = official_model
    assert count(model.trainable_variables) == 41_408_424
    parts = {PYRAMID: 23_508_032 + 40_768 + 3_344_384 + 593_935, HEAD: 13_895_680 + 25_625}
    for name, expected in parts.items():
        assert count(model.get_layer(name).trainable_variables) == expected
    # Moving statistics: two for each of the batch-norm channels, which have two parameters each.
    normalised = [variable for variable in model.trainable_variables if variable.name in {"gamma", "beta"}]
    assert count(model.non_trainable_variables) == count(normalised) == 53_120


def test_weight_decay_is_for_kernels_alone() -> None:
    model = build(detector_plan())
    names = {variable.name for variable in model.trainable_variables}
    assert names == {"kernel", "bias", "gamma", "beta"}
    assert all(len(kernel.shape) > 1 for kernel in kernels(model))
    assert count([v for v in model.trainable_variables if len(v.shape) > 1]) == count(kernels(model))


def test_parts_and_shapes() -> None:
    model = build(detector_plan())
    *maps, objectness, deltas = model.get_layer(PYRAMID)(tf.zeros([2, 64, 64, 16]))
    assert [tuple(feature.shape) for feature in maps] == [(2, edge, edge, 8) for edge in (16, 8, 4, 2)]
    anchors = 16**2 + 8**2 + 4**2
    assert objectness.shape == (2, anchors)
    assert deltas.shape == (2, anchors, 4)
    logits, moves = model.get_layer(HEAD)(tf.zeros([5, 3, 3, 8]))
    assert logits.shape == (5, 5)
    assert moves.shape == (5, 20)


def test_anchors_and_outputs_have_one_order() -> None:
    """A change at one place of the finest map changes the anchors of this place alone."""
    workload = detector(model={"anchors": {"sizes": [10.0, 16.0], "ratios": [0.5, 1.0]}})
    model = workload.build_model(Streams(weights=3, order=1, dropout=2))
    layers = {layer.name: layer for layer in model.get_layer(PYRAMID).layers}
    hidden = np.zeros((1, 16, 16, 8), np.float32)
    hidden[0, 5, 7] = 1
    objectness, deltas = layers["proposal_objectness"], layers["proposal_deltas"]
    for layer, size in ((objectness, 1), (deltas, 4)):
        changed = layer(hidden).numpy().reshape(-1, size).any(axis=1)
        places = workload._grid.boxes[: len(changed)][changed]
        np.testing.assert_allclose((places[:, :2] + places[:, 2:]) / 2, [[22, 30]] * 2, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_weights_and_outputs_in_single(policy: str) -> None:
    model = build(detector_plan(), policy)
    assert {variable.dtype for variable in model.weights} == {"float32"}
    *maps, objectness, deltas = model.get_layer(PYRAMID)(tf.zeros([1, 64, 64, 16]))
    assert {feature.dtype.name for feature in maps} == {policy.removeprefix("mixed_")}
    assert objectness.dtype == deltas.dtype == tf.float32
    assert {output.dtype for output in model.get_layer(HEAD)(tf.zeros([1, 3, 3, 8]))} == {tf.float32}


def test_weights_follow_their_seed_alone() -> None:
    models = [build(detector_plan(ranks=ranks), seed=seed) for seed, ranks in ((1, 1), (1, 2), (2, 1))]
    first, same, other = ([kernel.numpy() for kernel in kernels(model)] for model in models)
    assert all((a == b).all() for a, b in zip(first, same, strict=True))
    assert not any((a == b).all() for a, b in zip(first, other, strict=True))
    sums = [float(np.abs(kernel).sum()) for kernel in first]
    assert len(set(sums)) == len(sums)


def test_initial_deviations(official_model: keras.Model) -> None:
    variables = {variable.path: variable.numpy() for variable in kernels(official_model)}
    for name, expected in {
        "proposal_shared": 0.01,
        "proposal_deltas": 0.01,
        "classes": 0.01,
        "deltas": 0.001,
        "stem": np.sqrt(2 / (49 * 64)),
        "output_2": np.sqrt(1 / (9 * 256)),
        "hidden_2": np.sqrt(1 / 1024),
    }.items():
        (found,) = [value for path, value in variables.items() if path.split("/")[-2] == name]
        assert found.std() == pytest.approx(expected, rel=0.1), name


def test_multiply_adds_at_the_official_size() -> None:
    layers = detector_layers(detector_plan(OFFICIAL, ranks=64).benchmark)
    assert sum(layer.forward_mac for layer in layers) == pytest.approx(182.0e9, rel=0.005)
    assert [layer.name for layer in layers if not layer.needs_input_gradient] == ["stem"]
    assert len({layer.name for layer in layers}) == len(layers)


def test_multiply_adds_of_the_layers_that_were_built() -> None:
    """The formula against the shapes of the graph: kernels times output places."""
    plan = detector_plan()
    benchmark: ExtremeWeatherBenchmark = plan.benchmark
    model = build(plan)
    total = 0
    for part, often in ((PYRAMID, 1), (HEAD, benchmark.model.regions.batch)):
        for layer in model.get_layer(part).layers:
            for node in layer._inbound_nodes if hasattr(layer, "kernel") else ():
                places = int(np.prod(node.outputs[0].shape[1:-1]))
                total += often * places * int(np.prod(layer.kernel.shape))
    assert total == sum(layer.forward_mac for layer in detector_layers(benchmark))
