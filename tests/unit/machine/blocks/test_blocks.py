"""Blocks of a step: each operation in one, arithmetic equal to the network's, results equal to the step's."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context as eager
from unit.training.training_plans import make_plan

from hpcai.machine.blocks import compile as compiling
from hpcai.machine.blocks.compile import describe, make_graph
from hpcai.machine.blocks.process import (
    NO_TIME,
    compile_found,
    find_distinct,
    prepare,
    record_blocks,
    time_prepared,
    trace_subject,
)
from hpcai.machine.blocks.rounds import ROUNDS
from hpcai.machine.blocks.samples import (
    ANCHORS,
    CHAINS,
    MOST_FLOP,
    SMALL,
    WIDE,
    Draw,
    compile_anchors,
    time_samples,
    trace_sample,
)
from hpcai.machine.blocks.subject import Subject, reference_subject
from hpcai.machine.blocks.trace import BEGINNINGS, halve
from hpcai.machine.blocks.work import REGISTER, count_flop, describe_operations, kind_of
from hpcai.machine.kernels.reference_networks import reference_network
from hpcai.predict.training.layers import count_forward_flop, count_parameters
from hpcai.predict.what_if.step_model import sizes_of
from hpcai.training.batch_norm import BatchNormalization
from hpcai.training.momentum import MomentumSGD
from hpcai.training.work import computed_flop
from hpcai.training.workload import seed_streams
from hpcai.workloads.cosmoflow.training import CosmoFlow

SAMPLES = 4


def small_cnn() -> Subject:
    return reference_subject("small_cnn", SAMPLES)


def make_subject(name, model, loss, batch) -> Subject:
    optimizer = MomentumSGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss(*batch)
        variables = [one.value for one in model.trainable_variables]
        optimizer.apply(tape.gradient(value, variables), model.trainable_variables)

    return Subject(name, "reference network", SAMPLES, model, optimizer, loss, step, batch)


def mixed() -> Subject:
    """Two equal residual blocks with normalisation, a depthwise convolution, an embedding and segment sums."""
    images = keras.Input((8, 8, 4), batch_size=SAMPLES)
    found = images
    for _ in range(2):
        inner = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(found)
        inner = keras.layers.ReLU()(keras.layers.BatchNormalization()(inner))
        found = keras.layers.Add()([found, inner])
    found = keras.layers.DepthwiseConv2D(3, padding="same")(found)
    model = keras.Model(images, keras.layers.GlobalAveragePooling2D()(found))
    table = keras.Variable(np.ones((5, 4), "float32"))
    model._track_variable(table)

    def loss(images: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        summed = tf.math.unsorted_segment_sum(tf.gather(table.value, rows), rows, 5)
        return tf.reduce_mean(tf.square(model(images, training=True))) + tf.reduce_mean(tf.square(summed))

    batch = (tf.random.stateless_normal([SAMPLES, 8, 8, 4], (1, 2)), tf.constant([0, 1, 4, 4]))
    return make_subject("mixed", model, loss, batch)


def normalised() -> Subject:
    """Convolutions with normalisation and ReLU, one of them with a bias, and a dense layer; no two blocks are equal."""
    images = keras.Input((8, 8, 4), batch_size=SAMPLES)
    found = images
    for filters, has_bias in ((8, True), (16, False), (4, False)):
        found = keras.layers.Conv2D(filters, 3, padding="same", use_bias=has_bias)(found)
        found = keras.layers.ReLU()(BatchNormalization(1, momentum=0.9, epsilon=1e-5)(found))
    found = keras.layers.Dense(5, activation="sigmoid")(keras.layers.GlobalAveragePooling2D()(found))
    model = keras.Model(images, found)
    batch = (tf.random.stateless_normal([SAMPLES, 8, 8, 4], (1, 2)),)

    def loss(images: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(model(images, training=True)))

    return make_subject("normalised", model, loss, batch)


@pytest.mark.parametrize("make", [small_cnn, mixed])
def test_each_operation_is_in_one_block(make):
    blocks = trace_subject(make()).blocks
    names = [operation.name for block in blocks for operation in block.operations]
    assert len(names) == len(set(names))
    assert all(block.outputs or any(not one.outputs for one in block.operations) for block in blocks)
    graph = blocks[0].operations[0].graph
    used = {name.split(":")[0] for block in blocks for one in block.operations for name in [t.name for t in one.inputs]}
    constants = {tensor.op.name for block in blocks for tensor in block.constants}
    others = {graph.get_operation_by_name(name).type for name in used - set(names) - constants}
    assert others <= {"Placeholder", "ReadVariableOp"}


def test_the_arithmetic_of_all_blocks_is_the_network_s():
    network = reference_network("small_cnn")
    expected = sum(
        SAMPLES * count_forward_flop(layer) * (3 if layer.needs_input_gradient else 2) for layer in network.layers
    )
    found = find_distinct(trace_subject(small_cnn()))
    assert sum(one.count * count_flop(one.block.operations) for one in found) == expected


def test_the_arithmetic_of_three_dimensional_blocks_is_the_benchmark_s():
    workload = CosmoFlow(make_plan(point={"global_batch": 2}))
    model = workload.build_model(seed_streams(1, 0))
    batch = tuple(tf.zeros(spec.shape, spec.dtype) for spec in workload.batch_spec())

    def loss(*parts: tf.Tensor) -> tf.Tensor:
        return workload.loss(model, parts, tf.constant([1, 2], tf.int32))

    subject = Subject("c", "benchmark", 2, model, workload.build_optimizer(), loss, lambda: None, batch)
    traced = trace_subject(subject)
    expected = computed_flop(workload.batch_layers(), 1) * workload.plan.micro_batch
    assert sum(count_flop(block.operations) for block in traced.blocks) == expected
    assert {"3-D convolution", "dense"} <= {kind_of(block) for block in traced.blocks}


def test_blocks_of_a_network_without_repeats_are_its_products_and_what_comes_first():
    blocks = trace_subject(small_cnn()).blocks
    assert [kind_of(block) for block in blocks] == ["other", *["convolution"] * 3, "dense", "dense"]
    types = [{one.type for one in block.operations} for block in blocks]
    assert {"Conv2D", "BiasAdd", "Relu", "MaxPool", "MaxPoolGrad", "ReluGrad", "BiasAddGrad"} <= types[1]
    assert "Conv2DBackpropInput" not in types[1]
    assert all("Conv2DBackpropInput" in one for one in types[2:4])


def test_equal_blocks_are_found_once():
    found = find_distinct(trace_subject(mixed()))
    kinds = Counter()
    for one in found:
        kinds[kind_of(one.block)] += one.count
    assert kinds == {"convolution": 2, "depthwise": 1, "sparse": 2, "other": 1}
    # The first needs no input gradient, because its input is the data: the blocks differ although their layers do not.
    assert [one.count for one in found if kind_of(one.block) == "convolution"] == [1, 1]


def test_a_third_equal_block_has_a_number_instead_of_a_time_of_its_own():
    inputs = keras.Input((6,), batch_size=2)
    found = inputs
    for _ in range(4):
        found = keras.layers.Dense(6, activation="relu")(found)
    model = keras.Model(inputs, found)
    batch = (tf.ones([2, 6]),)

    def loss(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(model(values))

    subject = Subject("d", "reference network", 2, model, MomentumSGD(0.1), loss, lambda: None, batch)
    traced = trace_subject(subject)
    counts = sorted(one.count for one in find_distinct(traced) if kind_of(one.block) == "dense")
    assert counts == [1, 1, 2]
    described = {describe(block, make_graph(block, traced.values)) for block in traced.blocks}
    assert len(described) == len(find_distinct(traced))


@pytest.mark.parametrize("in_one_step", [True, False])
@pytest.mark.parametrize("make", [small_cnn, mixed])
def test_blocks_compute_what_the_step_does(make, in_one_step):
    traced = trace_subject(make())
    times, outputs = compiling.compile_pass(traced.blocks, traced.values, in_one_step)()
    assert times.shape == (len(traced.blocks),)
    assert (times >= 0).all()
    assert times.sum() > 0
    compared = 0
    for block, found in zip(traced.blocks, outputs, strict=True):
        for tensor, value in zip(block.outputs, found, strict=True):
            if tensor.ref() in traced.values:
                np.testing.assert_allclose(value, traced.values[tensor.ref()], rtol=1e-4, atol=1e-6)
                compared += 1
    assert compared >= len(traced.blocks) - 1


@pytest.mark.parametrize("make", [small_cnn, mixed])
def test_halves_of_a_block_hold_each_operation_once_and_give_what_the_block_does(make):
    for block in trace_subject(make()).blocks:
        halves = halve(block)
        assert [one for half in halves for one in half.operations] == list(block.operations)
        assert {one.ref() for one in block.outputs} <= {one.ref() for half in halves for one in half.outputs}
        made = {one.ref() for one in halves[0].outputs}
        assert {one.ref() for half in halves for one in half.inputs} - made == {one.ref() for one in block.inputs}


def test_a_block_that_cannot_be_computed_has_a_reason_and_the_others_a_time(monkeypatch):
    traced = trace_subject(small_cnn())
    found = find_distinct(traced)
    whole = compiling.compile_pass

    def compile_some(blocks, values, in_one_step):
        if found[1].block in blocks:
            raise ValueError("no kernel")
        return whole(blocks, values, in_one_step)

    monkeypatch.setattr(compiling, "compile_pass", compile_some)
    run = compile_found(found, traced.values)
    blocks = list(record_blocks(found, run()[0]))
    assert [one.time_s is None for one in blocks] == [number == 1 for number in range(len(found))]
    assert "no kernel" in blocks[1].reason


def count_fused(call):
    """Return how many fused operations of each type TensorFlow makes of a compiled function when it is first called."""
    context = eager.context()
    context.enable_graph_collection()
    try:
        call()
        found = context.export_run_metadata()
    finally:
        context.disable_graph_collection()
    nodes = [node for one in found.function_graphs for node in one.post_optimization_graph.node]
    nodes += [node for one in found.function_graphs for part in one.partition_graphs for node in part.node]
    return Counter(node.op for node in nodes if "Fused" in node.op)


@pytest.mark.parametrize("make", [small_cnn, normalised])
def test_blocks_fuse_what_the_step_fuses(make):
    subject = make()
    traced = trace_subject(subject)
    fused = count_fused(subject.step)
    assert fused
    run = compiling.compile_pass(traced.blocks, traced.values)
    assert count_fused(run) == fused


def test_operands_of_blocks_that_are_left_out_are_those_of_the_step():
    traced = trace_subject(mixed())
    for block in traced.blocks:
        _, (outputs,) = compiling.compile_pass([block], traced.values)()
        for tensor, value in zip(block.outputs, outputs, strict=True):
            if tensor.ref() in traced.values:
                np.testing.assert_allclose(value, traced.values[tensor.ref()], rtol=1e-4, atol=1e-6)


def test_times_are_of_all_blocks_and_of_the_update():
    subject = small_cnn()
    before = [variable.numpy().copy() for variable in subject.model.trainable_variables]
    times = time_prepared(prepare(subject), compile_anchors(), enough_s=0.0)
    assert len(times.anchors_s) == len(ANCHORS)
    assert min(times.anchors_s) > 0
    assert (times.network, times.batch, times.rounds) == ("small_cnn", SAMPLES, ROUNDS[0])
    assert times.parameters == count_parameters(reference_network("small_cnn"))
    assert times.gradient_sizes == sizes_of(reference_network("small_cnn"))
    assert times.step_s > 0
    assert times.update_s > 0
    assert abs(times.arguments_s) < times.step_s
    assert sum(block.count for block in times.blocks) == len(trace_subject(small_cnn()).blocks)
    for block in times.blocks:
        assert block.time_s is None or block.time_s > 0
        assert (block.time_s is None) == bool(block.reason)
        assert not block.reason or NO_TIME.find_in(block.reason)
    after = [variable.numpy() for variable in subject.model.trainable_variables]
    assert any((old != new).any() for old, new in zip(before, after, strict=True))


def test_every_beginning_has_a_kind():
    names = {block.operations[0].type: kind_of(block) for block in trace_subject(mixed()).blocks}
    assert all(kind != "other" for name, kind in names.items() if name in BEGINNINGS)


def works_of(compute, *shapes):
    """Return the work by type of what a function computes of variables of these shapes."""
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(tf.float32, shape) for shape in shapes]
        compute(*inputs)
    return {
        one.type: one for one in describe_operations(each for each in graph.get_operations() if each.type in WORKING)
    }


WORKING = {
    *{"Max", "Sum", "Tile", "Conv2DBackpropInput", "Conv3DBackpropFilterV2", "DepthwiseConv2dNative"},
    *{"MatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropFilter", "SparseTensorDenseMatMul", "GatherV2"},
    *{"BiasAdd", "Relu", "Sigmoid", "Mul", "Reshape", "Identity", "Sub"},
}


def test_what_a_product_fuses_costs_nothing():
    fused = works_of(lambda a, b, c: tf.nn.relu(tf.nn.bias_add(tf.matmul(a, b), c)), (6, 4), (4, 24), (24,))
    assert set(fused) == {"MatMul"}
    alone = works_of(lambda a, c: tf.nn.relu(tf.nn.bias_add(tf.sigmoid(a), c)), (6, 24), (24,))
    assert set(alone) == {"Sigmoid", "BiasAdd", "Relu"}


def test_what_is_asked_for_twice_is_computed_once():
    def twice(one, other):
        reshaped = tf.reshape(one, (4, 6))
        return tf.sigmoid(reshaped) * tf.sigmoid(tf.identity(tf.reshape(one, (4, 6)))) - tf.sigmoid(other)

    # A reshape is another operation, but the numbers are those of its input.
    assert {name: one.count for name, one in works_of(twice, (6, 4), (4, 6)).items()} == {
        "Sigmoid": 2, "Mul": 1, "Sub": 1,
    }  # fmt: skip


def test_work_counts_bytes_far_ones_and_idle_vectors():
    (product,) = works_of(tf.matmul, (512, 1024), (1024, 24)).values()
    assert product.work_flop == 2 * 512 * 1024 * 24
    assert product.idle_flop == pytest.approx(product.work_flop * 8 / 24)
    assert product.passed_bytes == 4 * (512 * 1024 + 1024 * 24 + 512 * 24)
    assert product.far_bytes == product.passed_bytes - 2**20
    small = works_of(tf.sigmoid, (3, 5))["Sigmoid"]
    assert (small.count, small.passed_bytes, small.far_bytes, small.idle_flop) == (1, 2 * 60, 0, 0)


def test_work_tells_the_parts_of_products_and_where_windows_move_by_more_than_one():
    image, window = (2, 8, 8, 3), (3, 3, 3, 16)
    one = works_of(lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"), image, window)["Conv2D"]
    assert (one.given_bytes, one.weight_bytes, one.result_bytes) == (4 * 2 * 64 * 3, 4 * 27 * 16, 4 * 2 * 64 * 16)
    assert one.strided_flop == 0
    two = works_of(lambda a, b: tf.nn.conv2d(a, b, 2, "SAME"), image, window)["Conv2D"]
    assert two.strided_flop == two.work_flop == one.work_flop / 4
    gradient = works_of(
        lambda a, b: tf.raw_ops.Conv2DBackpropFilter(
            input=a, filter_sizes=window, out_backprop=b, strides=[1, 1, 1, 1], padding="SAME"
        ),
        *(image, (2, 8, 8, 16)),
    )["Conv2DBackpropFilter"]
    # The same three tensors, of which it computes another one.
    assert gradient.given_bytes == one.given_bytes
    assert (gradient.weight_bytes, gradient.result_bytes) == (one.weight_bytes, one.result_bytes)


def test_work_tells_what_a_convolution_reads_in_vain_and_anew():
    one = works_of(lambda a, b: tf.nn.conv2d(a, b, 2, "SAME"), (2, 8, 8, 3), (3, 3, 3, 20))["Conv2D"]
    assert one.per_column_flop == one.work_flop / 20
    assert one.per_pixel_flop == one.work_flop / 4
    assert one.idle_input_flop == one.work_flop * (REGISTER - 3) / 3
    assert one.window_flop == one.work_flop
    pointwise = works_of(lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"), (2, 8, 8, 3), (1, 1, 3, 20))["Conv2D"]
    assert pointwise.window_flop == 0 < pointwise.work_flop
    gradient = works_of(
        lambda kernel, above: tf.raw_ops.Conv2DBackpropInput(
            input_sizes=(2, 8, 8, 3), filter=kernel, out_backprop=above, strides=[1, 2, 2, 1], padding="SAME"
        ),
        *((3, 3, 3, 20), (2, 4, 4, 20)),
    )["Conv2DBackpropInput"]
    # It computes images, and reads their 20 filters.
    assert gradient.work_flop == one.work_flop
    assert gradient.per_column_flop == one.work_flop / 3
    assert gradient.per_pixel_flop == one.per_pixel_flop
    assert gradient.idle_input_flop == pytest.approx(one.work_flop * (-20 % REGISTER) / 20)
    assert gradient.given_bytes == one.given_bytes
    each = works_of(lambda a, b: tf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], "SAME"), (2, 8, 8, 3), (3, 3, 3, 1))[
        "DepthwiseConv2dNative"
    ]
    # Along an axis, 22 of the 24 places of windows are inside of the image.
    assert (each.work_flop, each.per_column_flop, each.per_pixel_flop) == (pytest.approx(2 * 2 * 22**2 * 3), 0, 0)


def test_work_tells_repeated_operands_and_reductions_along_the_last_axis():
    same, row, number = (works_of(lambda a, b: a - b, (6, 4), shape)["Sub"] for shape in ((6, 4), (4,), ()))
    assert (same.repeated_bytes, number.repeated_bytes) == (0, 0)
    assert row.repeated_bytes == row.passed_bytes == 4 * (24 + 4 + 24)
    assert (row.repeated_rows, same.repeated_rows) == (6, 0)
    assert works_of(lambda a: tf.reduce_max(a, axis=-1), (6, 4))["Max"].last_axis_bytes > 0
    assert works_of(lambda a: tf.reduce_sum(a, axis=[0, 1]), (6, 4))["Sum"].last_axis_bytes > 0
    assert works_of(lambda a: tf.reduce_sum(a, axis=0), (6, 4))["Sum"].last_axis_bytes == 0
    assert works_of(tf.matmul, (4, 4), (4, 4))["MatMul"].repeated_bytes == 0
    assert works_of(lambda a: tf.tile(a, [3, 1]), (6, 4))["Tile"].repeated_bytes == 0


@pytest.mark.parametrize(
    ("first", "second", "rows"),
    [
        ((6, 4), (6, 1), 6),  # one number for each row
        ((6, 1), (1, 4), 2 * 6),  # both are read for each row
        ((6, 3, 4), (3, 4), 6),  # a row of 12
        ((6, 3, 4), (6, 3, 1), 6 * 3),
        ((6, 3, 4), (3, 1), 6 * 3),
        ((6, 3, 1, 4), (6, 1, 5, 4), 2 * 6 * 3 * 5),
        ((6, 1, 4), (1, 1, 4), 6),  # axes of one place are none
    ],
)
def test_rows_count_for_each_operand_that_is_repeated(first, second, rows):
    for one, other in ((first, second), (second, first)):
        assert works_of(lambda a, b: a * b, one, other)["Mul"].repeated_rows == rows


@pytest.mark.parametrize(
    ("edge", "window", "stride", "unfolded"),
    [(2, 3, 1, True), (1, 3, 1, True), (3, 3, 1, False), (2, 3, 2, False), (2, 2, 1, False), (1, 1, 1, False)],
)
def test_small_images_are_unfolded_for_the_gradient_of_3d_weights(edge, window, stride, unfolded):
    """As oneDNN's messages tell; it then multiplies what is outside of the image too."""
    results = -(-edge // stride)
    gradient = works_of(
        lambda images, above: tf.raw_ops.Conv3DBackpropFilterV2(
            input=images, filter_sizes=[window] * 3 + [4, 8], out_backprop=above, strides=[1, *[stride] * 3, 1],
            padding="SAME",
        ),
        *((2, *[edge] * 3, 4), (2, *[results] * 3, 8)),
    )["Conv3DBackpropFilterV2"]  # fmt: skip
    assert gradient.unfolded_flop == (2.0 * 2 * results**3 * window**3 * 4 * 8 if unfolded else 0.0)


@pytest.mark.parametrize("kind", ["convolution", "3-D convolution", "transposed convolution"])
def test_random_layers_with_many_weights_have_fewer_samples(kind):
    """Such layers are seldom rejected, so there are as many as were drawn."""
    few, many = Draw(1).batch(128, MOST_FLOP / 4, 1), Draw(1).batch(128, 1.0, 1)
    assert 1 <= few <= 4 < many
    chains = [CHAINS[kind](Draw(seed)) for seed in range(200)]
    assert np.mean([chain.flop <= MOST_FLOP for chain in chains]) > 0.8


def test_random_places_are_in_order():
    """As the edges of a graph are: neighbours read what is near."""
    places = Draw(3).values([50, 2], 20).numpy()
    assert np.array_equal(places, np.sort(places, axis=0))
    assert 0 <= places.min() < places.max() < 20


def test_random_filters_are_often_those_that_a_layer_gets():
    drawn = [Draw(seed).filters(64, 4, 512) for seed in range(400)]
    assert all(4 <= one <= 512 for one in drawn)
    assert np.mean([one in (16, 32, 64, 128, 256) for one in drawn]) > 0.5


def test_random_depthwise_layers_are_padded_in_each_way_and_dilated():
    operations = [
        one
        for seed in range(12)
        for found in find_distinct(trace_sample("depthwise", seed))
        for one in found.block.operations
    ]
    paddings = {one.get_attr("padding") for one in operations if one.type == "DepthwiseConv2dNative"}
    assert paddings == {b"SAME", b"EXPLICIT", b"VALID"}
    assert "SpaceToBatchND" in {one.type for one in operations}


@pytest.mark.parametrize(
    ("padding", "stride", "dilation", "places"),
    [
        ("VALID", 1, 1, 6 * 6 * 9),
        ("SAME", 1, 1, 22 * 22),  # first and last window of an axis are outside by one of three
        ("SAME", 2, 1, 11 * 11),  # only the last one, of four
        ("SAME", 1, 4, 16 * 16),  # half of the windows by one, half of them by two
        ([[0, 0], [2, 0], [0, 0], [0, 0]], 1, 1, 21 * 6 * 3),
    ],
)
def test_places_of_a_window_outside_of_the_image_are_no_work(padding, stride, dilation, places):
    def convolve(a, b):
        return tf.nn.conv2d(a, b, stride, padding, dilations=dilation)

    work = works_of(convolve, (2, 8, 8, 3), (3, 3, 3, 20))["Conv2D"]
    assert work.work_flop == pytest.approx(2 * 2 * 3 * 20 * places)
    assert works_of(convolve, (2, None, 8, 3), (3, 3, 3, 20))["Conv2D"].work_flop == 0


def test_work_counts_small_products_and_rows():
    many = works_of(tf.matmul, (5, 7, 4, 3), (5, 7, 3, 2))["BatchMatMulV2"]
    assert many.products == 5 * 7
    gathered = works_of(lambda table: tf.gather(table, [0, 2, 2]), (9, 4))["GatherV2"]
    assert (gathered.rows, gathered.products, gathered.work_flop) == (3, 0, 0)

    def multiply(table, values):
        return tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [0, 2], [5, 0]], values, [6, 9]), table)

    product = works_of(multiply, (9, 4), (3,))["SparseTensorDenseMatMul"]
    assert (product.rows, product.work_flop) == (3, 2 * 3 * 4)
    assert product.idle_flop == product.work_flop * 12 / 4


def test_small_operations_keep_the_shape_of_their_rows():
    rows = tf.constant(np.random.default_rng(1).normal(size=(3, 5)).astype("float32"))
    assert {tuple(step(rows).shape) for step in SMALL} == {(3, 5)}


def test_channels_are_often_multiples_as_in_networks():
    drawn = [Draw(seed).channels(8, 512) for seed in range(400)]
    assert 0.65 < np.mean([one % WIDE == 0 for one in drawn]) < 0.85
    assert all(8 <= one <= 512 for one in drawn)
    assert [Draw(seed).channels(1, 7) for seed in range(50)] == [Draw(seed).size(1, 7) for seed in range(50)]


def test_anchors_are_the_same_blocks_in_every_process():
    assert set(ANCHORS) == set(CHAINS)
    described = [
        [describe(block, make_graph(block, traced.values)) for block in traced.blocks]
        for traced in [trace_sample("dense", ANCHORS["dense"]) for _ in range(2)]
    ]
    assert described[0] == described[1]


def test_blocks_of_random_sizes_are_timed_with_the_anchors_and_without_any_there_are_no_parts():
    anchors = compile_anchors()
    (part,) = time_samples(1, anchors)
    assert [block.kind for block in part.blocks] == [*CHAINS, "update"]
    assert len(part.anchors_s) == len(ANCHORS)
    assert list(time_samples(0, anchors)) == []
