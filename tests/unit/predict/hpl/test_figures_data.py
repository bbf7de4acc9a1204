"""Shapes of Figs 5 to 7 of the source, and those that must not hold for other variants."""

import re

import numpy as np
import pytest

from hpcai.predict.hpl import findings as said
from hpcai.predict.hpl.figures_data import single_node_scenario, sweep_figures, two_node_scenario
from hpcai.predict.hpl.findings import list_findings
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.hpl.variants import split_by_rates


@pytest.fixture(scope="module")
def sweeps():
    return sweep_figures()


def efficiencies(**values):
    return simulate(single_node_scenario(**values)).efficiency_ratio


def test_5a_the_host_link_raises_the_rate():
    found = efficiencies(host_link_bytes_per_s=np.array([32e9, 64e9, 102.4e9, 128e9]))
    assert found == pytest.approx([0.7536, 0.7768, 0.7859, 0.7889], abs=1e-4)
    assert (np.diff(found) > 0).all()


def test_5b_the_block_lowers_the_efficiency():
    found = efficiencies(block=np.array([128, 256, 512, 1024]))
    assert found == pytest.approx([0.7573, 0.7536, 0.7461, 0.7315], abs=1e-4)
    assert (np.diff(found) < 0).all()


def test_5c_faster_gpus_lower_the_efficiency():
    found = efficiencies(gpu_multiplier=np.array([1, 2, 4, 8]))
    assert found == pytest.approx([0.7536, 0.7026, 0.6188, 0.4997], abs=1e-4)
    assert (np.diff(found) < 0).all()


def test_figure_5_holds_at_every_point(sweeps):
    frame = sweeps[(sweeps["figure"] == "5") & (sweeps["variant"] == "device")]
    assert len(frame) == 64
    cube = frame.set_index(["block", "host_link_bytes_per_s", "gpu_multiplier"])["efficiency_ratio"].sort_index()
    values = cube.to_numpy().reshape(4, 4, 4)
    assert (np.diff(values, axis=0) < 0).all()
    assert (np.diff(values, axis=1) > 0).all()
    assert (np.diff(values, axis=2) < 0).all()


def test_6_the_host_link_for_75_percent_grows_with_the_block(sweeps):
    frame = sweeps[(sweeps["figure"] == "6") & (sweeps["variant"] == "device") & (sweeps["gpu_multiplier"] == 1)]
    rates = frame.sort_values("block")["host_link_bytes_per_s"].to_numpy()
    assert rates == pytest.approx([27.51e9, 29.65e9, 35.11e9, 55.50e9], rel=1e-3)
    assert (np.diff(rates) > 0).all()
    assert frame["efficiency_ratio"].to_numpy() == pytest.approx(0.75, rel=1e-9)
    assert (frame["target_ratio"] == 0.75).all()


@pytest.mark.parametrize("variant", ["balance", "pipe"])
def test_other_variants_violate_5b_and_6_and_say_which_they_are(sweeps, variant):
    frame = sweeps[sweeps["variant"] == variant]
    fifth = frame[(frame["figure"] == "5") & (frame["gpu_multiplier"] == 1) & (frame["host_link_bytes_per_s"] == 32e9)]
    assert (np.diff(fifth.sort_values("block")["efficiency_ratio"]) > 0).all()
    sixth = frame[(frame["figure"] == "6") & (frame["gpu_multiplier"] == 1)]
    assert (np.diff(sixth.sort_values("block")["host_link_bytes_per_s"]) < 0).all()
    assert simulate(single_node_scenario(variant=variant)).variant == variant


def test_what_is_not_reachable_is_blank_with_a_reason(sweeps):
    frame = sweeps[sweeps["figure"] == "6"]
    blank = frame["host_link_bytes_per_s"].isna()
    assert blank.any()
    assert frame.loc[blank, ["time_s", "rate_flop_per_s", "efficiency_ratio"]].isna().all(axis=None)
    assert frame.loc[blank, "reason"].str.startswith("not reachable").all()
    assert (frame.loc[~blank, "reason"] == "").all()


def test_7_the_network():
    rates = simulate(two_node_scenario(np.array([1e9, 10e9, 100e9, 1000e9]))).rate_flop_per_s
    assert rates / 1e12 == pytest.approx([3.013, 16.858, 31.186, 34.082], abs=1e-3)
    assert rates[2] / rates[1] >= 1.7
    assert rates[3] / rates[2] <= 1.12
    gen4e, gen4s = simulate(two_node_scenario(100e9, np.array([102.4e9, 128e9]))).rate_flop_per_s
    assert 1 < gen4s / gen4e < 1.01


def test_columns_and_units_of_the_sweeps(sweeps):
    for name in (
        "figure",
        "variant",
        "nodes",
        "gpus_per_node",
        "gpu_multiplier",
        "order",
        "block",
        "topology",
        "method",
    ):
        assert sweeps[name].notna().all(), name
    assert set(sweeps["figure"]) == {"5", "6", "7"}
    assert set(sweeps["method"]) == {"modelled"}
    assert sweeps["source"].str.contains("assumed").all()
    seventh = sweeps[sweeps["figure"] == "7"]
    assert (seventh["peak_flop_per_s"] == 8 * 6.6e12).all()
    assert seventh["network_bit_per_s"].notna().all()
    assert set(sweeps["host_link_name"]) >= {"paper_Gen3", "paper_Gen4", "paper_Gen4E", "paper_Gen4S"}


def test_never_above_the_effective_peak(sweeps):
    device = sweeps[(sweeps["variant"] == "device") & (sweeps["figure"] == "5")]
    assert (device["efficiency_ratio"] <= 0.81).all()
    # pipe leaves panel and solve out: up to 1.5 NB/N more than its rates allow.
    pipe = sweeps[(sweeps["variant"] == "pipe") & (sweeps["figure"] == "5")]
    bound = 0.81 / split_by_rates(2.6624e12, 26.4e12 * pipe["gpu_multiplier"])
    assert (pipe["efficiency_ratio"] <= bound * (1 + 1.6 * pipe["block"] / 125000)).all()


def test_findings_say_what_is_reproduced_and_what_is_not(sweeps):
    findings = list_findings(sweeps).set_index("finding")
    assert set(findings["part"]) == {"HPL"}
    verdicts = findings["reproduced"]
    assert verdicts[said.ESTIMATES_TABLE_2] == "partly"
    assert verdicts[said.EQUATIONS_HOLD] == "no"
    assert verdicts[said.BLOCK_LOWERS] == "yes"
    assert verdicts[said.NETWORK_GAINS_LITTLE] == "yes"
    assert "4 of 8 rows" in findings.loc[said.ESTIMATES_TABLE_2, "computed"]
    fit = findings.loc["A fit of three parameters describes Table 2", "computed"]
    errors = said.FIT_ERRORS.find_in(fit)
    assert errors["whole"] == "0.39%"
    assert all(re.fullmatch(r"1\.\d\d%", errors[name]) for name in ("estimated", "real"))
    assert findings["source"].str.startswith("Hu and Lu 2021").all()


def test_a_finding_that_does_not_come_out_is_a_no(sweeps):
    turned = sweeps.copy()
    fifth = (turned["figure"] == "5") & (turned["variant"] == "device")
    turned.loc[fifth, "efficiency_ratio"] = 1 - turned.loc[fifth, "efficiency_ratio"]
    verdicts = list_findings(turned).set_index("finding")["reproduced"]
    assert verdicts[said.BLOCK_LOWERS] == "no"
    assert verdicts[said.LINK_RAISES] == "no"
