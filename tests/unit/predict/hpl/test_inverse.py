"""Inverse questions: a found value reproduces the target, and questions without an answer give a reason."""

from dataclasses import replace

import numpy as np
import pytest

from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.figures_data import single_node_scenario, two_node_scenario
from hpcai.predict.hpl.inverse import NOT_REACHABLE, find_block, find_host_link, find_network, find_order
from hpcai.predict.hpl.scenario import NodeRates
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import ethernet_network


def test_a_found_host_link_gives_the_target():
    scenario = single_node_scenario(512)
    answer = find_host_link(scenario, 0.7)
    assert answer.unit == "byte/s"
    assert answer.variant == "device"
    again = simulate(replace(scenario, host_link_bytes_per_s=answer.value)).efficiency_ratio
    assert again == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("framed", [False, True])
def test_a_found_network_gives_the_target(framed):
    scenario = two_node_scenario(1e9)
    if framed:
        scenario = replace(scenario, network=ethernet_network(1e9))
    answer = find_network(scenario, 0.5)
    assert answer.unit == "bit/s"
    again = replace(scenario, network=replace(scenario.network, rate_bit_per_s=answer.value))
    assert simulate(again).efficiency_ratio == pytest.approx(0.5, rel=1e-9)


def test_what_is_out_of_reach():
    answer = find_host_link(single_node_scenario(), 0.9)
    assert np.isnan(answer.value)
    assert answer.reason.startswith(NOT_REACHABLE(best=0.8015, target=0.9))
    low = find_host_link(single_node_scenario(), 1e-9)
    assert np.isnan(low.value)
    assert low.reason.startswith("no bound")


def test_the_best_block_depends_on_the_variant():
    device, pipe = (
        find_block(single_node_scenario(variant=variant), (64, 256, 1024)) for variant in ("device", "pipe")
    )
    assert (device.value, device.variant) == (64, "device")
    assert (pipe.value, pipe.variant) == (1024, "pipe")
    assert device.reason.startswith("the smallest of the candidates")
    assert pipe.reason.startswith("the largest of the candidates")


def test_the_largest_order_for_a_memory():
    answer = find_order(64 * 2**30, 256, 0.9)
    assert answer.value % 256 == 0
    assert 8 * answer.value**2 <= 0.9 * 64 * 2**30 < 8 * (answer.value + 256) ** 2


def test_orders_of_table_2_fill_the_memory_of_32_gib_gpus():
    for gpus, order in ((2, 88000), (4, 127000), (4, 125000), (8, 176000)):
        assert 0.90 <= 8 * order**2 / (gpus * 32 * 2**30) <= 0.95


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda: find_order(0, 256), "memory of 0 bytes"),
        (lambda: find_order(1000, 256), "impossible memory"),
        (lambda: find_order(1e9, 256, 1.5), "memory fraction"),
        (lambda: find_host_link(single_node_scenario(), 1.5), "target"),
        (lambda: find_host_link(single_node_scenario(block=np.array([64, 128])), 0.5), "one scenario"),
        (lambda: find_host_link(replace(single_node_scenario(), variant="cpu"), 0.5), "no host link"),
        (lambda: find_network(single_node_scenario(), 0.5), "2 nodes or more"),
        (lambda: find_block(single_node_scenario(), (10**6,)), "no block of the candidates"),
        (
            lambda: find_host_link(replace(single_node_scenario(), rates=NodeRates(
                cpu_rate_flop_per_s=1e12, gpu_rate_flop_per_s=1e13)), 0.5),
            "peak rates are known",
        ),
    ],
)  # fmt: skip
def test_questions_that_make_no_sense(question, words):
    with pytest.raises(ConfigError, match=words):
        question()
