"""DimeNet++ against the reference's numbers, and properties of any energy and its forces."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.opencatalyst.training.opencatalyst_plans import LIMITS, make_graph, make_plan

from hpcai.training.workload import Streams
from hpcai.workloads.opencatalyst.data.graph import Graph
from hpcai.workloads.opencatalyst.data.neighbours import find_edges
from hpcai.workloads.opencatalyst.settings import OpenCatalystBenchmark, OpenCatalystModel
from hpcai.workloads.opencatalyst.training.graphs import Graphs
from hpcai.workloads.opencatalyst.training.layers import InteractionBlock, OutputBlock, orthogonal
from hpcai.workloads.opencatalyst.training.model import DimeNetPlusPlus
from hpcai.workloads.opencatalyst.training.workload import OpenCatalyst

SEEDS = Streams(weights=1, order=2, dropout=3)
REFERENCE = Path(__file__).parents[4] / "data" / "opencatalyst" / "dimenet_reference.npz"


def batch_of(workload: OpenCatalyst, *graphs: Graph) -> tuple[Graphs, np.ndarray]:
    """The one batch that graphs make, with the samples' weights."""
    records = tf.data.Dataset.from_tensor_slices([graph.example() for graph in graphs])
    parsed = records.map(lambda record: workload.parse(record, None))
    (batch,) = workload.collate(parsed, workload.plan.micro_batch)
    return Graphs(*batch[:-1]), batch[-1].numpy()


def randomised(model: keras.Model, seed: int = 5) -> keras.Model:
    """Draw all weights anew, because zeros in the last layers would hide errors."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if "frequencies" not in weight.path:
            weight.assign(random.normal(0, 0.5, weight.shape))
    return model


def energy_and_forces(workload: OpenCatalyst, model: keras.Model, *graphs: Graph) -> tuple[float, np.ndarray]:
    graphs_in = batch_of(workload, *graphs)[0]
    energies = model(graphs_in.positions, graphs_in.structure).numpy()
    forces = model.forces(graphs_in.positions, graphs_in.structure).numpy()
    real = graphs_in.numbers.numpy() > 0
    assert not energies[~real].any()
    assert not forces[~real].any()
    return float(energies.sum()), forces[real]


def energy_of(workload: OpenCatalyst, model: keras.Model, graph: Graph) -> float:
    graphs_in = batch_of(workload, graph)[0]
    return float(model(graphs_in.positions, graphs_in.structure).numpy().sum())


def reference_order(model: DimeNetPlusPlus) -> list[keras.Variable]:
    """Our weights in the order of the reference's ``named_parameters``."""

    def linear(layer: Any) -> list[keras.Variable]:
        return [layer.kernel] if layer.bias is None else [layer.kernel, layer.bias]

    def output(block: OutputBlock) -> list[keras.Variable]:
        return [v for layer in (block.radial, block.up, *block.hidden, block.last) for v in linear(layer)]

    def interaction(block: InteractionBlock) -> list[keras.Variable]:
        start = [*linear(block.radial[0]), *linear(block.radial[1]), *linear(block.spherical), block.spherical_kernel]
        middle = [block.incoming, block.outgoing, block.down, block.up]
        skips = [[layer for residual in side for layer in (residual.first, residual.second)]
                 for side in (block.before, block.after)]  # fmt: skip
        return start + [v for layer in (*middle, *skips[0], block.skip, *skips[1]) for v in linear(layer)]

    embedding = model.embedding
    head = [
        model.radial_basis.frequencies,
        embedding.table,
        *linear(embedding.radial),
        embedding.kernel,
        embedding.bias,
    ]
    outputs = [v for block in model.outputs for v in output(block)]
    return head + outputs + [v for block in model.interactions for v in interaction(block)]


def split_reference(values: np.ndarray, variables: list[keras.Variable], elements: np.ndarray) -> list[np.ndarray]:
    """One array per weight; PyTorch keeps kernels transposed, and only the table's used rows are stored."""
    arrays, start = [], 0
    for variable in variables:
        is_table = "table" in variable.path
        shape = (len(elements), variable.shape[1]) if is_table else tuple(variable.shape)
        part = values[start : start + int(np.prod(shape))]
        start += part.size
        if is_table:
            table = np.zeros(variable.shape, np.float32)
            table[elements] = part.reshape(shape)
            arrays.append(table)
        else:
            arrays.append(part.reshape(shape[::-1]).T)
    assert start == values.size
    return arrays


def test_energies_forces_and_second_order_gradients_are_those_of_the_reference() -> None:
    """Made by mlcommons/hpc's dimenet_plus_plus.py; tests/data/opencatalyst/README.md says how."""
    stored = np.load(REFERENCE)
    workload = OpenCatalyst(make_plan())
    model = workload.build_model(SEEDS)
    variables = reference_order(model)
    assert len({id(v) for v in variables}) == len(model.trainable_variables)
    for variable, value in zip(
        variables, split_reference(stored["weights"], variables, stored["elements"]), strict=True
    ):
        variable.assign(value)
    graphs = batch_of(workload, *stored_graphs(stored))[0]
    real = graphs.numbers.numpy() > 0
    energies = model(graphs.positions, graphs.structure).numpy()[real]
    ends = np.cumsum(stored["atoms"])
    np.testing.assert_allclose(np.add.reduceat(energies, [0, *ends[:-1]]), stored["energy"], rtol=2e-5)
    with tf.GradientTape() as tape:
        forces = model.forces(graphs.positions, graphs.structure)
        loss = tf.reduce_sum(tf.abs(tf.boolean_mask(forces, real) - stored["target"]))
    np.testing.assert_allclose(forces.numpy()[real], stored["forces"], rtol=1e-4, atol=1e-4)
    assert float(loss) == pytest.approx(float(stored["loss"]), rel=1e-5)
    gradients = tape.gradient(loss, [v.value for v in variables])
    for ours, theirs in zip(
        gradients, split_reference(stored["gradients"], variables, stored["elements"]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-3 * max(1e-3, np.abs(theirs).max()))


def stored_graphs(stored: Any) -> list[Graph]:
    atoms, edges = np.cumsum([0, *stored["atoms"]]), np.cumsum([0, *stored["edges"]])
    graphs = []
    for n in range(len(stored["atoms"])):
        mine, own = slice(atoms[n], atoms[n + 1]), slice(edges[n], edges[n + 1])
        graphs.append(
            replace(
                make_graph(int(stored["atoms"][n])),
                pos=stored["pos"][mine],
                cell=stored["cell"][n][None],
                atomic_numbers=stored["numbers"][mine],
                edge_index=stored["edge_index"][:, own].astype(np.int64) - atoms[n],
                cell_offsets=stored["cell_offsets"][own].astype(np.int64),
            )
        )
    return graphs


def test_official_network_has_the_published_parameters() -> None:
    data = {"dataset": "x", "source": "generate", "train_samples": 1, "validation_samples": 1}
    benchmark = OpenCatalystBenchmark(
        name="x", workload="opencatalyst", title="x", data=data, pack={"codec": "zstd"}, target={"value": 0.036}
    )
    model = DimeNetPlusPlus(benchmark, "float32", 1)
    assert model.count_params() == 1_810_182
    blocks = (model.embedding, model.interactions[0], model.outputs[0], model.radial_basis)
    counts = [sum(int(np.prod(v.shape)) for v in block.trainable_weights) for block in blocks]
    assert counts == [130_368, 360_512, 149_568, 6]


def test_weights_start_as_in_the_reference_and_depend_on_the_seed_alone() -> None:
    model = OpenCatalyst(make_plan(model={"hidden": 64})).build_model(SEEDS)
    again = OpenCatalyst(make_plan(model={"hidden": 64})).build_model(SEEDS)
    other = OpenCatalyst(make_plan(model={"hidden": 64})).build_model(replace(SEEDS, weights=9))
    for one, two in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert (model.embedding.table.numpy() != other.embedding.table.numpy()).any()
    table = model.embedding.table.numpy()
    assert np.abs(table).max() <= np.sqrt(3)
    assert table.std() == pytest.approx(1, abs=0.03)
    np.testing.assert_allclose(model.radial_basis.frequencies.numpy(), np.pi * np.arange(1, 4), rtol=1e-6)
    assert not any(output.last.kernel.numpy().any() for output in model.outputs)
    assert not model.interactions[0].incoming.bias.numpy().any()
    assert np.abs(model.embedding.bias.numpy()).max() <= 1 / np.sqrt(3 * 64)
    assert model.outputs[0].up.bias.numpy().any()


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 8), (42, 8), (8, 8)])
def test_orthogonal_kernels_have_glorots_variance(inputs: int, outputs: int) -> None:
    kernel = orthogonal(np.random.default_rng(1), inputs, outputs).astype(np.float64)
    assert kernel.var(ddof=1) == pytest.approx(2 / (inputs + outputs), rel=1e-5)
    products = kernel.T @ kernel if inputs >= outputs else kernel @ kernel.T
    np.testing.assert_allclose(products, products[0, 0] * np.eye(len(products)), atol=1e-6)


def test_forces_are_minus_the_numerical_gradient_of_the_energy_where_angles_are_held_fixed() -> None:
    """With one spherical harmonic, the constant, the energy does not depend on angles, and the forces are exact."""
    workload = OpenCatalyst(make_plan(model={"spherical": 1}))
    model = randomised(workload.build_model(SEEDS))
    graph = make_graph(3)
    forces = energy_and_forces(workload, model, graph)[1]
    step = 2e-3
    for atom, axis in ((0, 0), (1, 2), (2, 1)):
        moves = []
        for sign in (1, -1):
            positions = graph.pos.copy()
            positions[atom, axis] += sign * step
            moves.append(energy_of(workload, model, replace(graph, pos=positions)))
        assert forces[atom, axis] == pytest.approx(-(moves[0] - moves[1]) / (2 * step), rel=0.02, abs=0.02)


def test_angles_are_detached_from_the_forces() -> None:
    """With angles the forces differ from the numerical gradient, as in the reference."""
    workload = OpenCatalyst(make_plan())
    model = randomised(workload.build_model(SEEDS))
    graph = make_graph(3)
    forces = energy_and_forces(workload, model, graph)[1]
    differences, step = [], 2e-3
    for atom in range(3):
        energies = []
        for sign in (1, -1):
            positions = graph.pos.copy()
            positions[atom, 0] += sign * step
            energies.append(energy_of(workload, model, replace(graph, pos=positions)))
        differences.append(abs(forces[atom, 0] + (energies[0] - energies[1]) / (2 * step)))
    assert max(differences) > 0.03 * np.abs(forces).max()


def test_energy_knows_nothing_of_rotation_translation_order_and_choice_of_images() -> None:
    workload = OpenCatalyst(make_plan())
    model = randomised(workload.build_model(SEEDS))
    graph = make_graph(4)
    energy, forces = energy_and_forces(workload, model, graph)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0].astype(np.float32)
    turned = replace(graph, pos=graph.pos @ rotation + 1.5, cell=graph.cell @ rotation)
    turned_energy, turned_forces = energy_and_forces(workload, model, turned)
    assert turned_energy == pytest.approx(energy, rel=1e-4)
    np.testing.assert_allclose(turned_forces, forces @ rotation, rtol=1e-3, atol=1e-3 * np.abs(forces).max())
    # The same crystal with other atoms first, one of them taken from a neighbouring cell.
    order = np.array([2, 0, 3, 1])
    positions = (graph.pos + np.eye(4, dtype=np.float32)[:, :1] * graph.cell[0, 1])[order].astype(np.float64)
    edge_index, cell_offsets = find_edges(
        positions, graph.cell[0].astype(np.float64), replace(LIMITS, max_neighbours=99)
    )
    all_index, all_offsets = find_edges(
        graph.pos.astype(np.float64), graph.cell[0].astype(np.float64), replace(LIMITS, max_neighbours=99)
    )
    wide = OpenCatalyst(make_plan(data={"max_neighbours": 99, "capacity": {"atoms": 6, "edges": 300}}))
    wide_model = randomised(wide.build_model(SEEDS))
    first = energy_and_forces(wide, wide_model, replace(graph, edge_index=all_index, cell_offsets=all_offsets))
    shuffled = replace(
        graph,
        pos=positions.astype(np.float32),
        atomic_numbers=graph.atomic_numbers[order],
        edge_index=edge_index,
        cell_offsets=cell_offsets,
    )
    second = energy_and_forces(wide, wide_model, shuffled)
    assert second[0] == pytest.approx(first[0], rel=1e-4)
    np.testing.assert_allclose(second[1], first[1][order], rtol=1e-3, atol=1e-3 * np.abs(first[1]).max())


def test_padding_and_company_change_nothing() -> None:
    roomy = {"data": {"capacity": {"atoms": 11, "edges": 120}}}
    alone, together, spacious = (
        OpenCatalyst(make_plan(**changes)) for changes in ({"recipe": {"global_batch": 1}}, {}, roomy)
    )
    model = randomised(alone.build_model(SEEDS))
    first, second = make_graph(4), make_graph(5)
    apart = [energy_and_forces(alone, model, graph) for graph in (first, second)]
    for workload in (together, spacious):
        energy, forces = energy_and_forces(workload, model, first, second)
        assert energy == pytest.approx(apart[0][0] + apart[1][0], rel=1e-4)
        both = np.concatenate([apart[0][1], apart[1][1]])
        np.testing.assert_allclose(forces, both, rtol=1e-3, atol=1e-4 * np.abs(both).max())


def test_every_weight_has_a_gradient_from_the_first_step_on() -> None:
    workload = OpenCatalyst(make_plan())
    model = workload.build_model(SEEDS)
    graphs = batch_of(workload, make_graph(4), make_graph(5))[0]

    def gradients() -> list[tf.Tensor | None]:
        with tf.GradientTape() as tape:
            loss = workload.loss(model, tuple(graphs), tf.zeros([2], tf.int32))
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    first = gradients()
    assert all(gradient is not None for gradient in first)
    assert any(np.abs(gradient).max() > 0 for gradient in first)
    assert all(np.isfinite(gradient).all() for gradient in first)
    randomised(model)
    assert all(np.abs(tf.convert_to_tensor(gradient)).max() > 0 for gradient in gradients())


def test_a_batch_of_zeros_gives_finite_numbers() -> None:
    workload = OpenCatalyst(make_plan())
    model = randomised(workload.build_model(SEEDS))
    zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in workload.batch_spec())
    assert float(workload.loss(model, zeros, tf.zeros([2], tf.int32))) == 0
    assert np.isfinite(workload.evaluate(model, zeros, tf.zeros(2)).numpy()).all()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_is_fp32_but_for_rounding(precision: str) -> None:
    exact, rounded = (OpenCatalyst(make_plan(point={"precision": name})) for name in ("fp32", precision))
    models = [randomised(workload.build_model(SEEDS)) for workload in (exact, rounded)]
    assert {str(variable.dtype) for variable in models[1].weights} == {"float32"}
    assert models[1].embedding.compute_dtype != "float32"
    pairs = zip((exact, rounded), models, strict=True)
    forces = [energy_and_forces(workload, model, make_graph(4))[1] for workload, model in pairs]
    assert forces[1].dtype == np.float32
    assert np.linalg.norm(forces[1] - forces[0]) < 0.1 * np.linalg.norm(forces[0])


def test_the_defaults_are_the_official_network() -> None:
    assert OpenCatalystModel().model_dump() == {
        "hidden": 192, "output_hidden": 192, "blocks": 3, "interaction_hidden": 64, "basis_hidden": 8, "radial": 6,
        "spherical": 7, "layers_before_skip": 1, "layers_after_skip": 2, "output_layers": 3, "envelope_exponent": 5,
    }  # fmt: skip
