"""Steps of processes that share samples, against numbers worked out by hand."""

import numpy as np
import pytest
from unit.refusals import refused

from hpcai.core.errors import ConfigError
from hpcai.predict.training.layers import Layer, LayerList
from hpcai.predict.training.step import TOO_MANY_PARTS, UNEVEN_REPLICAS, Scenario, predict_step, time_halos

NETWORK = LayerList(
    name="cubes",
    title="a test",
    samples_per_epoch=8,
    layers=(
        Layer("one", "convolution", (8, 8, 8, 2), (8, 8, 8, 4), (3, 3, 3), parameters=216, needs_input_gradient=False),
        Layer("two", "convolution", (4, 4, 4, 4), (4, 4, 4, 8), (3, 3, 3), parameters=864),
        Layer("last", "dense", (512,), (4,), parameters=2048),
    ),
    source="a test",
)
PLANES = 8 * 8 * 2 + 2 * 4 * 4 * 4
"""Numbers for one neighbour: forward of the first convolution, forward and back of the second."""
LATENCY_S, LINK = 1e-3, 8e6
MACHINE = {"peak_flop_per_s": 1e6, "memory_bytes_per_s": 1e12, "link_bit_per_s": LINK, "latency_s": LATENCY_S}


def scenario(ranks: int, batch: float, parts: object = 1) -> Scenario:
    return Scenario(**MACHINE, ranks=ranks, batch=batch, spatial_parts=parts)


@pytest.mark.parametrize(("parts", "neighbours"), [(1, 0), (2, 1), (4, 2)])
def test_planes_wait_for_latency_and_travel(parts: int, neighbours: int) -> None:
    expected = 0.0 if parts == 1 else 3 * LATENCY_S + 8 * 4 * 3 * neighbours * PLANES / LINK
    assert time_halos(NETWORK.layers, scenario(4, 3, parts)) == pytest.approx(expected)


def test_more_parts_than_the_last_planes_are_cut_along_rows() -> None:
    """4 x 4: a part in the middle has two neighbours each way; rows travel with those of the joined planes."""
    planes = 8 // 4 * 8 * 2 + 2 * (4 // 4 * 4 * 4)
    rows = (8 // 4 + 2) * 8 * 2 + 2 * ((4 // 4 + 2) * 4 * 4)
    expected = 2 * 3 * LATENCY_S + 8 * 4 * 3 * 2 * (planes + rows) / LINK
    assert time_halos(NETWORK.layers, scenario(16, 3, 16)) == pytest.approx(expected)


@pytest.mark.parametrize("parts", [32, 5, 64])
def test_no_edge_has_more_parts_than_the_smallest_layer_has_planes(parts: int) -> None:
    with refused(ConfigError, TOO_MANY_PARTS, parts=parts, planes=4):
        time_halos(NETWORK.layers, scenario(parts, 3, parts))


def test_parts_are_whole_numbers_along_each_edge() -> None:
    """6 = 3 x 2, as 4 planes cannot be divided among more."""
    planes = 8 / 2 * 8 * 2 + 2 * (4 / 2 * 4 * 4)
    rows = (8 / 3 + 2) * 8 * 2 + 2 * ((4 / 3 + 2) * 4 * 4)
    expected = 2 * 3 * LATENCY_S + 8 * 4 * 3 * (2 * planes + rows) / LINK
    assert time_halos(NETWORK.layers, scenario(6, 3, 6)) == pytest.approx(expected)


def test_convolutions_are_shared_and_dense_layers_are_not() -> None:
    whole, shared = (predict_step(NETWORK, scenario(4, *one)) for one in ((1, 1), (4, 4)))
    halos_s = float(time_halos(NETWORK.layers, scenario(4, 4, 4)))
    dense_s = 3 * 2 * 512 * 4 / 1e6  # of one sample, forward and both gradients
    assert shared.compute_s - whole.compute_s == pytest.approx(3 * dense_s)
    assert shared.communication_s - whole.communication_s == pytest.approx(halos_s)
    assert shared.exposed_communication_s == shared.communication_s
    assert shared.rate_samples_per_s == pytest.approx(4 / shared.step_s)  # one replica of four samples


def test_parts_can_be_swept() -> None:
    together = predict_step(NETWORK, scenario(4, 2, np.array([1, 2, 4])))
    for place, parts in enumerate((1, 2, 4)):
        assert together.step_s[place] == pytest.approx(float(predict_step(NETWORK, scenario(4, 2, parts)).step_s))


def test_processes_make_whole_replicas() -> None:
    with refused(ConfigError, UNEVEN_REPLICAS, ranks=6, parts=4):
        scenario(6, 1, 4)
