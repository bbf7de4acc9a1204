"""Messages over Ethernet and InfiniBand: corrected and printed forms (Hu and Lu 2021, eqs 9 to 16)."""

import numpy as np
import pytest

from hpcai.core.errors import ConfigError
from hpcai.predict.links import (
    HOST_LINKS_BYTES_PER_S,
    NO_PRINTED_FORM,
    ethernet_network,
    ethernet_time_s,
    infiniband_network,
    message_time_s,
    named_network,
    plain_network,
    printed_step_time_s,
)


def test_one_megabyte_over_ethernet():
    assert ethernet_time_s(1e6, 1e9) == pytest.approx(8.677344e-3, rel=1e-9)
    assert ethernet_time_s(1e6, 1e9, form="printed") == pytest.approx(1.677344e-3, rel=1e-9)


def test_a_byte_more_takes_a_frame_more():
    assert ethernet_time_s([1442, 1443], 1e9) == pytest.approx([1.2512e-5, 1.3496e-5], rel=1e-9)


def test_framing_and_slot_time_are_switches():
    assert ethernet_time_s(1460, 1e9, framing="standard") == pytest.approx((512 + 8 * (1460 + 78)) / 1e9, rel=1e-12)
    assert ethernet_time_s(1461, 1e9, framing="standard") > ethernet_time_s(1460, 1e9, framing="standard") * 1.04
    assert ethernet_time_s(1442, 1e9, slot_time=False) == pytest.approx(8 * 1500 / 1e9, rel=1e-12)


@pytest.mark.parametrize(
    ("generation", "time_s"),
    [("SDR", 1.0), ("DDR", 0.5), ("QDR", 0.25), ("FDR", 0.146667), ("EDR", 0.08), ("HDR", 0.04)],
)
def test_one_gigabyte_over_infiniband(generation, time_s):
    assert message_time_s(infiniband_network(generation), 1e9) == pytest.approx(time_s, rel=3e-6)


@pytest.mark.parametrize(("generation", "time_s"), [("QDR", 0.3125), ("EDR", 0.0825), ("SDR", 1.25)])
def test_the_printed_infiniband_counts_the_encoding_twice(generation, time_s):
    # Eq. 16 with a block of 1 sends 8 bits for each of 1e9 numbers.
    step_s = printed_step_time_s(infiniband_network(generation), 1, 1e9, 1)
    assert step_s == pytest.approx(time_s, rel=1e-9)


def test_hdr_has_no_printed_form():
    with pytest.raises(ConfigError, match=NO_PRINTED_FORM(network="InfiniBand HDR 4x")):
        printed_step_time_s(infiniband_network("HDR"), 1, 1e9, 1)


def test_one_step_between_four_nodes():
    size_bytes = 8 * 200 * 8000 / 4
    assert size_bytes == 3.2e6
    assert message_time_s(infiniband_network("EDR"), size_bytes) == pytest.approx(2.56e-4, rel=1e-9)
    assert message_time_s(ethernet_network(10e9), size_bytes) == pytest.approx(2.776672e-3, rel=1e-9)
    assert message_time_s(plain_network(100e9), size_bytes, 0.5) == pytest.approx(5.12e-4, rel=1e-9)


def test_equations_15_and_16_as_printed():
    assert printed_step_time_s(infiniband_network("EDR"), 200, 8000, 4) == pytest.approx(6.6e-3, rel=1e-9)
    frames = np.ceil(3.2e6 / 1442)
    expected = (frames * (512 + 8 * 58) + 200 * 8000 / 4) / 10e9
    assert printed_step_time_s(ethernet_network(10e9), 200, 8000, 4) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ConfigError, match="not defined for 100 Gbit/s"):
        printed_step_time_s(plain_network(100e9), 200, 8000, 4)


@pytest.mark.parametrize(
    ("text", "kind", "rate"), [("10GbE", "ethernet", 10e9), ("EDR", "infiniband", 100e9), ("QDR1x", "infiniband", 8e9)]
)
def test_names_of_networks(text, kind, rate):
    network = named_network(text)
    assert network.kind == kind
    assert network.rate_bit_per_s == pytest.approx(rate, rel=1e-12)


def test_what_is_no_network():
    assert named_network("100 Gbit/s") is None
    with pytest.raises(ConfigError, match="SDR, DDR, QDR, FDR, EDR"):
        infiniband_network("XDR")
    with pytest.raises(ConfigError, match="0 InfiniBand lanes"):
        infiniband_network("EDR", 0)
    with pytest.raises(ConfigError, match="MTU of 58"):
        ethernet_time_s(1, 1e9, mtu_bytes=58)
    with pytest.raises(ConfigError, match="found framing 'jumbo'"):
        ethernet_time_s(1, 1e9, framing="jumbo")


def test_host_links_of_the_source_are_told_from_one_direction():
    assert HOST_LINKS_BYTES_PER_S["paper_Gen3"] == 32e9
    assert HOST_LINKS_BYTES_PER_S["paper_Gen4"] == 64e9
    assert HOST_LINKS_BYTES_PER_S["x16_Gen3"] == 15.75e9
    assert HOST_LINKS_BYTES_PER_S["x16_Gen4"] == 31.5e9
