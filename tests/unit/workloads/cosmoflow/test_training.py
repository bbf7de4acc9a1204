"""CosmoFlow's model, loss and quality."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.training.training_plans import make_plan

from hpcai.core.processor import lacks_avx512
from hpcai.training.engine import Engine
from hpcai.training.workload import Streams, seed_streams
from hpcai.workloads.cosmoflow.pooled import FirstMaximum3D, PooledConv3D
from hpcai.workloads.cosmoflow.spatial import HaloConv3D
from hpcai.workloads.cosmoflow.training import LEAKY_SLOPE, CosmoFlow, absolute_errors, random_symmetry

needs_onednn = pytest.mark.skipif(
    lacks_avx512(), reason="oneDNN's bf16 convolutions, which need AVX-512; with TensorFlow's own a pool switches here"
)
SEEDS = Streams(weights=1, order=2, dropout=3)
STEP_SEED = tf.constant([1, 2], tf.int32)


def official(kernel: int) -> CosmoFlow:
    model = {"kernel": kernel, "conv_layers": 5, "base_filters": 32, "dense": (128, 64), "dropout": 0.5}
    return CosmoFlow(make_plan(data={"edge": 128}, model=model))


@pytest.mark.parametrize(("kernel", "parameters"), [(3, 8_907_556), (2, 5_597_604)])
def test_official_network_has_the_published_parameters(kernel: int, parameters: int) -> None:
    model = official(kernel).build_model(SEEDS)
    assert model.count_params() == parameters
    assert model.output_shape[1:] == (4,)
    assert [layer.output.shape[1] for layer in model.layers if "pooling" in layer.name] == [64, 32, 16, 8, 4]


def reference_model(edge: int, conv_layers: int, filters: int, dense: tuple[int, int]) -> keras.Model:
    """The network as the reference writes it: convolution with bias, LeakyReLU, pool."""
    model = keras.Sequential([keras.Input((edge, edge, edge, 4))])
    for block in range(conv_layers):
        model.add(keras.layers.Conv3D(filters * 2**block, 3, padding="same"))
        model.add(keras.layers.LeakyReLU(LEAKY_SLOPE))
        model.add(keras.layers.MaxPooling3D(2))
    model.add(keras.layers.Flatten())
    for units in dense:
        model.add(keras.layers.Dense(units))
        model.add(keras.layers.LeakyReLU(LEAKY_SLOPE))
    model.add(keras.layers.Dense(4, activation="tanh"))
    model.add(keras.layers.Rescaling(1.2))
    return model


def test_the_pool_before_bias_and_activation_changes_neither_predictions_nor_gradients() -> None:
    workload = CosmoFlow(make_plan())
    model = workload.build_model(SEEDS)
    reference = reference_model(16, 3, 4, (16, 8))
    rng = np.random.default_rng(3)
    # Biases of zero would hide an activation in the wrong place.
    weights = [rng.normal(size=weight.shape, scale=0.2) for weight in model.get_weights()]
    model.set_weights(weights)
    reference.set_weights(weights)
    counts = rng.poisson(3, (4, 16, 16, 16, 4)).astype(np.int16)
    targets = tf.constant(rng.uniform(-1, 1, (4, 4)), tf.float32)

    def gradients(network: keras.Model, inputs: object) -> tuple[object, list[object]]:
        with tf.GradientTape() as tape:
            loss = workload.loss(network, (tf.constant(inputs), targets), STEP_SEED)
        return network(inputs), tape.gradient(loss, [variable.value for variable in network.trainable_variables])

    ours, our_gradients = gradients(model, counts)
    theirs, their_gradients = gradients(reference, np.log1p(counts.astype(np.float32)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    for our, their in zip(our_gradients, their_gradients, strict=True):
        np.testing.assert_allclose(our, their, rtol=1e-4, atol=1e-6)


def test_weights_depend_on_the_seed_alone_and_biases_start_at_zero() -> None:
    workload = CosmoFlow(make_plan())
    first, second, other = (
        workload.build_model(seeds).get_weights() for seeds in (SEEDS, SEEDS, replace(SEEDS, weights=9))
    )
    for one, two, three in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(one, two)
        if one.ndim == 1:
            assert not one.any()
        else:
            assert (one != three).any()


def test_ranks_share_weights_and_order_but_not_dropout() -> None:
    first, second = seed_streams(7, 0), seed_streams(7, 1)
    assert (first.weights, first.order) == (second.weights, second.order)
    assert first.dropout != second.dropout
    assert len({first.weights, first.order, first.dropout}) == 3
    assert seed_streams(8, 0).weights != first.weights


def test_parts_of_a_dataset_have_orders_of_their_own_and_the_first_that_of_the_whole() -> None:
    whole, *parts = seed_streams(7, 3), *(seed_streams(7, 3, part) for part in range(4))
    assert parts[0] == whole
    assert whole.order == int(np.random.SeedSequence([7, 1]).generate_state(1)[0]) % (2**31 - 1)
    assert len({one.order for one in parts}) == len(parts)
    assert {replace(one, order=0) for one in parts} == {replace(whole, order=0)}


def test_loss_is_the_mean_squared_error_plus_l2_on_the_hidden_dense_kernels() -> None:
    plain, decayed = CosmoFlow(make_plan()), CosmoFlow(make_plan(recipe={"weight_decay": 0.01}))
    model = plain.build_model(SEEDS)
    targets = tf.constant([[1.0, 0, 0, 0]])
    batch = (tf.zeros((1, 16, 16, 16, 4), tf.int16), targets)
    # With counts of zero, only the bias of the last layer remains.
    bias = [variable for variable in model.trainable_variables if variable.shape == (4,)][-1]
    bias.assign([0.3, -0.2, 0.1, 2])
    error = float(((1.2 * np.tanh(bias.numpy()) - targets[0].numpy()) ** 2).mean())
    assert float(plain.loss(model, batch, STEP_SEED)) == pytest.approx(error)
    kernels = [weight for weight in model.get_weights() if weight.ndim == 2 and weight.shape[1] != 4]
    assert len(kernels) == 2
    penalty = 0.01 * sum(float((kernel**2).sum()) for kernel in kernels)
    assert float(decayed.loss(model, batch, STEP_SEED)) == pytest.approx(error + penalty, rel=1e-5)


def test_quality_of_uneven_shards_with_padding_is_the_plain_mean() -> None:
    workload = CosmoFlow(make_plan())
    rng = np.random.default_rng(1)
    targets, predictions = rng.uniform(-1, 1, (2, 7, 4)).astype(np.float32)
    padded = [np.concatenate([part, np.full((1, 4), np.nan, np.float32)]) for part in (targets, predictions)]
    weights = np.array([1, 1, 1, 0], np.float32)
    first = absolute_errors(targets[:4], predictions[:4], np.ones(4, np.float32)).numpy()
    second = absolute_errors(padded[0][4:], padded[1][4:], weights).numpy()
    assert first[0, 0] + second[0, 0] == 7
    assert workload.quality(np.concatenate([first, second])) == pytest.approx(
        np.abs(predictions - targets).mean(), rel=1e-6
    )


def test_a_prediction_that_is_no_number_shows_in_the_quality() -> None:
    workload = CosmoFlow(make_plan())
    sums = absolute_errors(np.zeros((1, 4)), np.full((1, 4), np.nan), np.ones(1, np.float32)).numpy()
    assert np.isnan(workload.quality(sums))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_warm_up_leaves_no_trace(dropout: float, single_rank: None) -> None:
    workload = CosmoFlow(make_plan(model={"dropout": dropout}))
    engine, untouched = Engine(workload, SEEDS), Engine(workload, SEEDS)
    engine.warm_up()
    batch = tuple(tf.ones(spec.shape, spec.dtype) for spec in workload.batch_spec())
    for one in (engine, untouched):
        one.train([batch])
    assert engine.digest() == untouched.digest()
    for one, other in zip(engine.optimizer.variables, untouched.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_variables_and_predictions_are_float32_in_each_precision(precision: str, single_rank: None) -> None:
    workload = CosmoFlow(make_plan(point={"precision": precision}))
    engine = Engine(workload, SEEDS)
    assert {str(variable.dtype) for variable in engine.model.weights} == {"float32"}
    assert engine.model.output.dtype == "float32"
    compute = {layer.compute_dtype for layer in engine.model.layers if "conv" in layer.name}
    assert compute == {"float32" if precision == "fp32" else "bfloat16"}
    batch = tuple(tf.ones(spec.shape, spec.dtype) for spec in workload.batch_spec())
    losses = [float(engine.train([batch])) for _ in range(30)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("engine", "kind", "precision", "by_blocks"),
    [
        ("jax", "gpu", "bf16", 2),
        ("jax", "gpu", "tf32", 1),
        ("jax", "gpu", "fp32", 0),
        ("jax", "cpu", "bf16", 0),
        ("tensorflow", "gpu", "bf16", 0),
    ],
)
def test_xla_computes_the_first_convolutions_by_blocks_on_gpus_with_tensor_cores(
    engine: str, kind: str, precision: str, by_blocks: int
) -> None:
    workload = CosmoFlow(make_plan(point={"precision": precision, "engine": engine}))
    device = workload.plan.machine.device.model_copy(update={"kind": kind})
    machine = workload.plan.machine.model_copy(update={"device": device})
    model = CosmoFlow(workload.plan.model_copy(update={"machine": machine})).build_model(SEEDS)
    convolutions = [layer for layer in model.layers if "conv" in layer.name]
    kinds = [isinstance(layer, PooledConv3D) for layer in convolutions]
    assert kinds == [True] * by_blocks + [False] * (len(kinds) - by_blocks)
    assert len({layer.compute_dtype for layer in convolutions}) == 1
    plain = workload.build_model(SEEDS)
    assert [one.shape for one in model.weights] == [one.shape for one in plain.weights]


def test_parts_of_samples_are_not_computed_by_blocks() -> None:
    """Blocks have no halos; pools that choose stay in a part."""
    workload = CosmoFlow(make_plan(2, point={"precision": "bf16", "engine": "jax", "spatial_parts": 2}))
    device = workload.plan.machine.device.model_copy(update={"kind": "gpu"})
    machine = workload.plan.machine.model_copy(update={"device": device})
    model = CosmoFlow(workload.plan.model_copy(update={"machine": machine})).build_model(SEEDS)
    kinds = [type(layer) for layer in model.layers if isinstance(layer, (HaloConv3D, FirstMaximum3D, PooledConv3D))]
    assert kinds == [HaloConv3D, FirstMaximum3D] * workload.benchmark.model.conv_layers


@pytest.mark.parametrize(("edge", "conv_layers"), [(16, 3), pytest.param(16, 4, marks=needs_onednn), (32, 5)])
def test_bf16_gradients_are_those_of_fp32_but_for_rounding(edge: int, conv_layers: int) -> None:
    """oneDNN's bfloat16 convolutions on an edge of 2 have wrong gradients: such layers must compute in float32."""
    changes = {"data": {"edge": edge}, "model": {"conv_layers": conv_layers, "base_filters": 8, "dense": (16, 8)}}
    workloads = [CosmoFlow(make_plan(**changes, point={"precision": precision})) for precision in ("fp32", "bf16")]
    models = [workload.build_model(SEEDS) for workload in workloads]
    rng = np.random.default_rng(5)
    for _ in range(3):
        counts = rng.poisson(2, (4, edge, edge, edge, 4)).astype(np.int16)
        targets = tf.constant(rng.uniform(-1, 1, (4, 4)), tf.float32)
        gradients = []
        for workload, model in zip(workloads, models, strict=True):
            with tf.GradientTape() as tape:
                loss = workload.loss(model, (counts, targets), STEP_SEED)
            # Early layers differ by more than rounding: a pool may choose another of two nearly equal voxels.
            last = [layer for layer in model.layers if "conv" in layer.name][-1]
            gradients.append(tape.gradient(loss, last.kernel.value))
        exact, rounded = gradients
        assert float(tf.norm(rounded - exact)) < 0.3 * float(tf.norm(exact))


def test_momentum_step_is_the_one_of_the_reference(single_rank: None) -> None:
    """v <- 0.9 v - rate g; w <- w + v (Keras' SGD)."""
    workload = CosmoFlow(make_plan())
    engine = Engine(workload, SEEDS)
    engine.set_learning_rate(0.1)
    variable = engine.model.trainable_variables[-1]
    before = variable.numpy()
    gradients = [tf.ones(v.shape) for v in engine.model.trainable_variables]
    for _ in range(2):
        engine.optimizer.apply(gradients, engine.model.trainable_variables)
    np.testing.assert_allclose(variable.numpy(), before - 0.1 - (0.09 + 0.1), rtol=1e-5)


def test_symmetries_keep_the_voxels_and_are_all_of_them() -> None:
    cube = tf.constant(np.random.default_rng(5).poisson(3, (4, 4, 4, 2)).astype(np.int16))
    found = {random_symmetry(cube, tf.constant([seed, 1], tf.int32)).numpy().tobytes() for seed in range(600)}
    assert len(found) == 48
    assert cube.numpy().tobytes() in found
    turned = random_symmetry(cube, tf.constant([3, 1], tf.int32)).numpy()
    # Each voxel keeps its four redshifts.
    assert sorted(map(tuple, turned.reshape(-1, 2))) == sorted(map(tuple, cube.numpy().reshape(-1, 2)))
    np.testing.assert_array_equal(turned, random_symmetry(cube, tf.constant([3, 1], tf.int32)))


def test_only_training_is_augmented() -> None:
    counts = np.random.default_rng(5).poisson(3, (16, 16, 16, 4)).astype(np.int16)
    record = make_example(counts, [0.0, 0.1, 0.2, 0.3])
    plain, turning = (CosmoFlow(make_plan(recipe={"augmentation": how})) for how in ("none", "symmetries"))
    seed = tf.constant([3, 1], tf.int32)
    for workload, own_seed in ((plain, None), (plain, seed), (turning, None)):
        np.testing.assert_array_equal(workload.parse(record, own_seed)[0], counts)
    np.testing.assert_array_equal(turning.parse(record, seed)[0], random_symmetry(tf.constant(counts), seed))


def make_example(counts: np.ndarray, targets: list[float]) -> tf.Tensor:
    features = {
        "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts.astype("<i2").tobytes()])),
        "y": tf.train.Feature(float_list=tf.train.FloatList(value=targets)),
    }
    return tf.constant(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def test_linear_decay_ends_before_zero() -> None:
    recipe = {"schedule": "linear", "warmup_epochs": 1, "max_epochs": 4, "base_learning_rate": 0.001}
    workload = CosmoFlow(make_plan(recipe=recipe))
    steps = workload.plan.epoch_steps
    rates = [workload.learning_rate(epoch * steps) for epoch in range(4)]
    assert rates == pytest.approx([0.001, workload.peak_rate, workload.peak_rate * 2 / 3, workload.peak_rate / 3])
    assert "opt_learning_rate_decay_factor" not in workload.hyperparameters()
