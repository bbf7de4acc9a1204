"""Ranks that share samples take the same step as ranks with whole samples with the engine jax, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.training.test_jax_engine import called
from unit.workloads.cosmoflow.parts import workload
from unit.workloads.cosmoflow.test_spatial import EXACT, padded_parts, voxels, worst

PROGRAM = Path(__file__).with_name("jax_parts_program.py")
CASES = [(2, 3, 3), (4, 3, 2), (4, 2, 2), (4, 3, 3), (8, 2, 2)]
"""Parts, kernel and convolutions; the last two are cut along rows, too."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("jax_parts") / "found.npz"
    called(str(PROGRAM), str(file))
    return np.load(file)


def layers(found: Any, name: str) -> list[np.ndarray]:
    """Return the arrays of all layers."""
    return [found[f"{name}/{number}"] for number in range(sum(key.startswith(f"{name}/") for key in found.files))]


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_whole_samples_layer_by_layer(found: Any, case: tuple[int, ...]) -> None:
    """One, two and four replicas; their dropout is that of as many ranks with whole samples."""
    name = "_".join(map(str, case))
    expected = layers(found, f"{name}/whole")
    assert len(expected) == 2 * case[2] + 6  # kernel and bias of each layer
    assert {one.dtype for one in expected} == {np.dtype("float64")}
    assert worst(layers(found, f"{name}/parts"), expected) <= EXACT


@pytest.mark.parametrize("exchange", ["group_gather", "group_neighbours"])
def test_a_wrong_gradient_of_an_exchange_is_seen(found: Any, exchange: str) -> None:
    assert worst(layers(found, exchange), layers(found, "4_3_3/whole")) > 0.1


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("grid", [(4, 1), (2, 2), (4, 2)])
def test_a_single_voxel_reaches_the_parts_that_need_it(found: Any, grid: tuple[int, int], kernel: int) -> None:
    np.testing.assert_array_equal(found[f"halos/{kernel}/{grid}"], padded_parts(voxels(), grid, kernel))


@pytest.mark.parametrize("case", CASES)
def test_a_step_hands_over_what_is_modelled(found: Any, case: tuple[int, ...]) -> None:
    parts, kernel, conv_layers = case
    plan = workload(parts, kernel=kernel, conv_layers=conv_layers).plan
    point = plan.point.model_copy(update={"engine": "jax"})
    modelled = plan.model_copy(update={"point": point}).part_bytes / plan.local_batch
    assert found[f"{'_'.join(map(str, case))}/bytes"] == pytest.approx(2 * modelled)  # numbers of twice the size
