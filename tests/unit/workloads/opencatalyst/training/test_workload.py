"""Loss, quality, schedule, hyper-parameters and work of OpenCatalyst."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.opencatalyst.training.opencatalyst_plans import make_graph, make_plan

from hpcai.core.errors import DatasetError
from hpcai.training.engine import Engine
from hpcai.training.work import computed_flop
from hpcai.training.workload import Streams
from hpcai.workloads.opencatalyst.data.graph import Graph
from hpcai.workloads.opencatalyst.settings import OpenCatalystModel
from hpcai.workloads.opencatalyst.training.work import GraphSize, dimenet_layers
from hpcai.workloads.opencatalyst.training.workload import NO_FORCE_UNIT, OpenCatalyst

SEEDS = Streams(weights=1, order=2, dropout=3)
NO_SEED = tf.zeros([2], tf.int32)


class Still:
    """A model whose forces are known: ``value`` in each component."""

    def __init__(self, value: float) -> None:
        self.value = value

    def forces(self, positions: tf.Tensor, structure: object) -> tf.Tensor:
        return tf.fill(tf.shape(positions), self.value)


class Descent(OpenCatalyst):
    """Takes steps that are the gradients."""

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.0)


def batches_of(workload: OpenCatalyst, *graphs: Graph) -> list[tuple[tuple[tf.Tensor, ...], tf.Tensor]]:
    records = tf.data.Dataset.from_tensor_slices([graph.example() for graph in graphs])
    parsed = records.map(lambda record: workload.parse(record, None))
    return [(tuple(batch[:-1]), batch[-1]) for batch in workload.collate(parsed, workload.plan.micro_batch)]


def free_forces(*graphs: Graph) -> np.ndarray:
    return np.concatenate([graph.force[graph.fixed == 0] for graph in graphs])


def test_loss_is_the_sum_over_components_per_free_atom_in_units_of_the_deviation() -> None:
    workload = OpenCatalyst(make_plan())
    graphs = make_graph(4), make_graph(5)
    ((batch, _),) = batches_of(workload, *graphs)
    errors = np.abs(0.25 - free_forces(*graphs) / 0.5)
    expected = 50 * errors.sum() / (3 + 4)
    weight = float(workload.weight(batch))
    assert float(workload.loss(Still(0.25), batch, NO_SEED)) / weight == pytest.approx(expected, rel=1e-5)
    assert 0.25 < weight <= 1  # gradients and their sums stay in the range of half precision


def test_quality_of_uneven_batches_is_the_plain_mean_over_free_components() -> None:
    workload = OpenCatalyst(make_plan())
    graphs = make_graph(4), make_graph(5), make_graph(3)
    rows = [workload.evaluate(Still(0.25), *batch).numpy() for batch in batches_of(workload, *graphs)]
    together = np.concatenate(rows)
    assert together.dtype == np.float64
    assert together[:, 0].tolist() == [2, 1]
    assert together[:, 2].tolist() == [21, 6]
    assert workload.quality(together) == pytest.approx(np.abs(0.125 - free_forces(*graphs)).mean(), rel=1e-6)


def test_samples_of_weight_zero_do_not_count_even_if_they_are_no_numbers() -> None:
    workload = OpenCatalyst(make_plan())
    good, bad = make_graph(4), make_graph(5)
    ((batch, _),) = batches_of(workload, good, replace(bad, force=bad.force * np.nan))
    rows = workload.evaluate(Still(0.0), batch, tf.constant([1.0, 0.0])).numpy()
    assert rows[0, 0] == 1
    assert workload.quality(rows) == pytest.approx(np.abs(free_forces(good)).mean(), rel=1e-6)
    assert np.isnan(workload.quality(workload.evaluate(Still(0.0), batch, tf.ones(2)).numpy()))


def test_the_unit_of_forces_is_the_official_one_or_that_of_the_training_data() -> None:
    def unit(setting: object, statistics: dict | None = None) -> float:
        plan = make_plan(recipe={"force_standard_deviation": setting, "global_batch": 2, "max_epochs": 1})
        return OpenCatalyst(plan, statistics).force_unit

    assert unit(2.887317180633545) == 2.887317180633545
    assert unit("training", {"force_standard_deviation": (0.3,)}) == 0.3
    with refused(DatasetError, NO_FORCE_UNIT):
        unit("training")


def official() -> OpenCatalyst:
    return OpenCatalyst(make_plan(recipe={"global_batch": 256, "max_epochs": 30}))


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.00008),
        (15_626, 0.00024),
        (31_252, 0.0004),
        (31_253, 0.0004),
        (125_007, 0.0004),
        (125_008, 0.00004),
        (187_511, 0.00004),
        (187_512, 0.000004),
        (250_016, 0.0000004),
    ],
)
def test_official_schedule(step: int, rate: float) -> None:
    assert official().learning_rate(step) == pytest.approx(rate, rel=1e-9)


def test_without_warm_up_the_base_rate_holds_from_the_start() -> None:
    plan = make_plan(recipe={"warmup_steps": 0, "global_batch": 2, "max_epochs": 1, "decay_steps": []})
    assert OpenCatalyst(plan).learning_rate(0) == 0.0004


def test_hyperparameters_are_those_that_the_rules_name() -> None:
    assert official().hyperparameters() == {
        "opt_name": "AdamW",
        "opt_base_learning_rate": 0.0004,
        "opt_learning_rate_warmup_steps": 31_252,
        "opt_learning_rate_warmup_factor": 0.2,
        "opt_learning_rate_decay_boundary_steps": [125_008, 187_512, 250_016],
        "opt_learning_rate_decay_factor": 0.1,
    }


def test_the_optimizer_has_the_references_settings() -> None:
    optimizer = official().build_optimizer()
    assert (optimizer.weight_decay, optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.01, 0.9, 0.999, 1e-8)
    optimizer.build([keras.Variable(1.0, name="bias")])
    assert optimizer._use_weight_decay(optimizer._trainable_variables[0])


def test_work_of_the_official_network_is_the_sum_over_its_layers() -> None:
    """Written out by hand for a graph of 73 atoms, 3,300 edges and 150,000 paths."""
    layers = dimenet_layers(OpenCatalystModel(), GraphSize(73, 3_300, 150_000))
    output = 3_300 * 6 * 192 + 73 * 4 * 192 * 192
    interaction = 3_300 * (9 * 192 * 192 + 2 * 192 * 64 + 6 * 8 + 8 * 192)
    basis, product = 150_000 * 42 * 8, 150_000 * 8 * 64
    both = 3_300 * (6 * 192 + 192 * 192) + 4 * output + 3 * interaction
    last, elements = 4 * 73 * 192, 73 * 192 * 2 * 192
    assert sum(layer.forward_mac for layer in layers) == 2 * (both + 3 * basis) + 3 * 3 * product + last + elements
    assert computed_flop(layers, 2) == 2 * 2 * (6 * both + 5 * 3 * basis + 9 * 3 * product + 2 * last + 3 * elements)
    spared = {layer.name for layer in layers if not layer.needs_input_gradient}
    assert spared == {
        *(f"interaction {n} spherical 1, energy" for n in (1, 2, 3)),
        *(f"output {n} last, force" for n in range(4)),
    }


def test_work_follows_the_mean_size_of_the_training_graphs() -> None:
    statistics = {"mean_atoms": (4.0,), "mean_edges": (36.0,), "mean_triplets": (300.0,)}
    known, unknown = OpenCatalyst(make_plan(), statistics).layers(), OpenCatalyst(make_plan()).layers()
    assert [layer.name for layer in known] == [layer.name for layer in unknown]
    assert known[0].forward_mac == 36 * 3 * 8
    assert unknown[0].forward_mac == 54 * 3 * 8


def test_steps_of_the_engine_lower_the_loss_and_warm_up_leaves_no_trace(single_rank: None) -> None:
    recipe = {"global_batch": 2, "max_epochs": 2, "warmup_steps": 0, "force_standard_deviation": 1.0}
    workload = OpenCatalyst(make_plan(recipe=recipe))
    engine = Engine(workload, SEEDS)
    before = engine.digest()
    engine.warm_up()
    assert engine.digest() == before
    ((batch, weights),) = batches_of(workload, make_graph(4), make_graph(5))
    engine.set_learning_rate(0.02)
    losses = [float(engine.train([batch])) for _ in range(25)]
    assert losses[-1] < 0.8 * losses[0]
    rows = engine.evaluate((*batch, weights)).numpy()
    # The loss sums three components, the quality is their mean.
    assert workload.quality(rows) == pytest.approx(losses[-1] / 150, rel=0.3)


@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
def test_micro_batches_count_by_their_atoms(single_rank: None, precision: str) -> None:
    """A step of graphs one by one is the step of both at once, though they have 3 and 1 free atoms."""
    found, shallow = [], {"blocks": 1, "output_layers": 1, "radial": 2, "spherical": 2}
    for count in (1, 2):
        workload = Descent(make_plan(model=shallow, point={"accumulation": count, "precision": precision}))
        engine = Engine(workload, SEEDS)
        engine.set_learning_rate(1.0)
        before = [one.numpy() for one in engine.model.weights]
        batches, gradients = [batch for batch, _ in batches_of(workload, make_graph(4), make_graph(2))], [np.zeros(1)]
        for _ in range(20):  # a loss scale that was too large leaves steps out
            if any(one.any() for one in gradients):
                break
            loss = float(engine.train(batches))
            gradients = [old - one.numpy() for old, one in zip(before, engine.model.weights, strict=True)]
        found.append((loss, gradients))
    tolerance = 1e-4 if precision == "fp32" else 0.1
    assert found[0][0] == pytest.approx(found[1][0], rel=tolerance)
    assert any(one.any() for one in found[0][1])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(one).max() + 1e-6)


@pytest.mark.slow
def test_official_network_takes_a_finite_step_on_an_official_sample() -> None:
    data = {"cutoff_angstrom": 6.0, "max_neighbours": 50, "capacity": {"atoms": 73, "edges": 3650}}
    model = OpenCatalystModel().model_dump()
    plan = make_plan(data=data, model=model, recipe={"global_batch": 1, "max_epochs": 1})
    workload = OpenCatalyst(plan)
    network = workload.build_model(SEEDS)
    ((batch, weights),) = batches_of(workload, big_graph())
    with tf.GradientTape() as tape:
        loss = workload.loss(network, batch, NO_SEED)
    variables = [v.value for v in network.trainable_variables]
    gradients = tape.gradient(loss, variables)
    assert np.isfinite(float(loss))
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in gradients)
    workload.build_optimizer().apply(gradients, network.trainable_variables)
    assert np.isfinite(workload.evaluate(network, batch, weights).numpy()).all()


def big_graph() -> Graph:
    """A slab of 72 atoms with an adsorbed atom: OC20's mean size."""
    from ase.build import add_adsorbate, fcc111

    from hpcai.workloads.opencatalyst.data.graph import GraphLimits
    from hpcai.workloads.opencatalyst.data.neighbours import find_edges

    slab = fcc111("Cu", (4, 6, 3), vacuum=10.0)
    add_adsorbate(slab, "O", 1.3, "fcc")
    random = np.random.default_rng(1)
    positions = slab.positions + random.normal(0, 0.05, slab.positions.shape)
    edge_index, offsets = find_edges(positions, slab.cell.array, GraphLimits(6.0, 50))
    assert len(positions) == 73
    return replace(
        make_graph(3),
        pos=positions.astype(np.float32),
        cell=slab.cell.array.astype(np.float32)[None],
        atomic_numbers=slab.numbers.astype(np.float32),
        edge_index=edge_index,
        cell_offsets=offsets,
        force=random.normal(size=positions.shape).astype(np.float32),
        fixed=(slab.get_tags() == 3).astype(np.float32),
        tags=np.ones(73, np.int64),
    )
