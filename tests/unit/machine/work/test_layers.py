"""Layers read from the graph of a training step, compared with formula and model, for all five benchmarks."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan
from hpcai.machine.work.layers import list_layers, main
from hpcai.machine.work.step import NEUTRAL_STATISTICS
from hpcai.predict.training.layers import LINEAR, Layer, LayerList, count_forward_flop, count_parameters, is_transposed
from hpcai.records.files import read_part
from hpcai.training.registry import workload_of
from hpcai.training.workload import seed_streams

ROOT = Path(__file__).parents[4]
BENCHMARKS = ("cosmoflow", "deepcam", "extreme_weather", "opencatalyst", "resnet50")
GRAPHS = {
    **{f"mean_{what}": (size,) for what, size in (("atoms", 10.7), ("edges", 118.4), ("triplets", 1301.5))},
    **{f"standard_deviation_{what}": (size,) for what, size in (("atoms", 1.9), ("edges", 20.1))},
    "max_atoms": (13.0,),
    "max_edges": (150.0,),
}
OFFICIAL_GRAPHS = {
    **{f"mean_{what}": (size,) for what, size in (("atoms", 73.0), ("edges", 3300.0), ("triplets", 150_000.0))},
    **{f"standard_deviation_{what}": (size,) for what, size in (("atoms", 30.0), ("edges", 1400.0))},
    "max_atoms": (225.0,),
    "max_edges": (11_250.0,),
}


def plan(name: str, **changes: Any) -> RunPlan:
    """Return the plan of a published benchmark file on one rank."""
    return plan_of(yaml.safe_load((ROOT / f"config/benchmarks/{name}.yaml").read_text()), **changes)


def multiply_adds(layers: LayerList) -> float:
    return sum(count_forward_flop(layer) for layer in layers.layers) / 2


def by_name(layers: LayerList) -> dict[str, Layer]:
    found = {layer.name: layer for layer in layers.layers}
    assert len(found) == len(layers.layers)
    return found


def of_one_rank(settings: RunPlan, samples: int) -> RunPlan:
    point = settings.point.model_copy(update={"global_batch": samples, "accumulation": 1})
    return settings.model_copy(update={"point": point})


@pytest.mark.parametrize("name", BENCHMARKS)
def test_products_and_parameters_are_those_of_the_benchmark(name: str) -> None:
    settings = plan(f"{name}_tiny")
    layers = list_layers(settings, GRAPHS)
    samples = min(settings.micro_batch, 8)
    workload = workload_of(of_one_rank(settings, samples), {**NEUTRAL_STATISTICS, **GRAPHS})
    expected = workload.batch_layers()
    # Positions of graphs are a batch's rows divided among its samples, rounded to integers.
    tolerance = 0.005 if name == "opencatalyst" else 0
    assert multiply_adds(layers) == pytest.approx(sum(layer.forward_mac for layer in expected), rel=tolerance, abs=0.5)
    without = [layer.forward_mac for layer in expected if not layer.needs_input_gradient]
    found = [count_forward_flop(layer) / 2 for layer in layers.layers if not layer.needs_input_gradient]
    assert sum(found) == pytest.approx(sum(without), rel=tolerance, abs=0.5)
    assert sum(layer.kind in LINEAR for layer in layers.layers) >= len({layer.name for layer in expected}) - 1
    model = workload.build_model(seed_streams(1, 0))
    assert count_parameters(layers) == sum(
        int(variable.value.shape.num_elements()) for variable in model.trainable_variables
    )
    assert layers.samples_per_epoch == settings.benchmark.data.train_samples


def test_depthwise_and_transposed_convolutions_and_their_batch_norm() -> None:
    layers = by_name(list_layers(plan("deepcam_tiny")))
    depthwise = layers["exit1 depthwise"]
    # TensorFlow dilates a depthwise kernel by dividing the frame among the batch: 4 x 6 pixels in another arrangement.
    assert (depthwise.kind, math.prod(depthwise.output_shape), depthwise.kernel) == ("depthwise", 4 * 6 * 96, (3, 3))
    assert depthwise.parameters == 9 * 96
    enlarged = layers["decoder_up1"]
    assert is_transposed(enlarged)
    assert (enlarged.input_shape, enlarged.output_shape) == ((4, 6, 32), (8, 12, 32))
    assert layers["stem1"].needs_input_gradient is False
    assert layers["stem1"].parameters == 9 * 16 * 8
    assert layers["stem1_norm"].parameters == 2 * 8
    assert layers["decoder3"].bias
    assert layers["block2_add"].kind == "add"
    assert layers["decoder_concat"].output_shape == (16, 24, 40)


def test_bias_behind_a_pool_belongs_to_its_convolution() -> None:
    layers = by_name(list_layers(plan("cosmoflow_tiny")))
    first = layers["conv3d"]
    assert (first.kernel, first.input_shape, first.output_shape) == ((3, 3, 3), (16, 16, 16, 4), (16, 16, 16, 8))
    assert first.parameters == 27 * 4 * 8 + 8
    assert first.bias
    assert "other" not in {layer.kind for layer in layers.values()}


def test_what_is_called_by_hand_is_listed_and_shared_weights_count_once() -> None:
    layers = by_name(list_layers(plan("extreme_weather_tiny")))
    head = layers["hidden_1"]
    assert head.kind == "dense"
    assert head.input_shape[0] == 32
    shared = [layer for name, layer in layers.items() if "proposal_shared" in name and layer.kind == "convolution"]
    assert len(shared) == 3
    assert [layer.parameters > 0 for layer in shared] == [True, False, False]
    left_out = " ".join(list_layers(plan("extreme_weather_tiny")).not_modelled)
    assert "SparseTensorDenseMatMul" in left_out
    assert "NonMaxSuppression" in left_out


def test_force_multiplies_with_each_kernel_once_more() -> None:
    settings = plan("opencatalyst_tiny")
    layers = list_layers(settings, GRAPHS)
    force = [layer for layer in layers.layers if layer.name.startswith("force of")]
    assert force
    model = settings.benchmark.model
    # The energy itself is not used, so the last kernels of the output blocks occur only in the force.
    assert sum(layer.parameters for layer in force) == (model.blocks + 1) * model.output_hidden
    assert layers.layers[-1].kind == "other"
    # No matrix product contains the elements' vectors, the spherical basis' kernels or the radial basis' frequencies.
    bases = model.blocks * model.basis_hidden * model.interaction_hidden + model.radial
    assert layers.layers[-1].parameters == 95 * model.hidden + bases
    assert any("TorchAdamW" in text for text in layers.not_modelled)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_official_sizes(name: str) -> None:
    settings = plan(name, point={"global_batch": 2})
    layers = list_layers(settings, OFFICIAL_GRAPHS)
    workload = workload_of(settings, {**NEUTRAL_STATISTICS, **OFFICIAL_GRAPHS})
    expected = sum(layer.forward_mac for layer in workload.batch_layers())
    assert multiply_adds(layers) == pytest.approx(expected, rel=0.005 if name == "opencatalyst" else 1e-12)


def test_command_writes_the_list(tmp_path: Path) -> None:
    settings = plan("cosmoflow_tiny")
    (tmp_path / "plan.json").write_text(settings.model_dump_json())
    main(["--plan", str(tmp_path / "plan.json"), "--output", str(tmp_path / "layers.json")])
    assert read_part(LayerList, tmp_path / "layers.json") == list_layers(settings)
