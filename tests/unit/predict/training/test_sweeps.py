"""Frames of sweeps: columns, rows at the baseline, and agreement with single predictions."""

import pytest

from hpcai.core.errors import ConfigError
from hpcai.predict.training.networks import build_network
from hpcai.predict.training.presets import HYPOTHETICAL, VALIDATION
from hpcai.predict.training.step import StepModel, predict_step
from hpcai.predict.training.sweeps import PAIRS, SWEEPS, predict_networks, sweep_training


@pytest.fixture(scope="module")
def swept():
    return sweep_training()


def test_all_pairs_are_swept_over_five_quantities_with_two_cost_models(swept):
    assert set(swept["swept"]) == {"peak", "memory", "link", "nodes", "batch"}
    assert {*zip(swept["network"], swept["data"], strict=True)} == set(PAIRS)
    assert set(swept["cost_model"]) == {"gemm", "full"}
    at_baseline = swept[swept["at_baseline"]]
    assert len(at_baseline) == 5 * 6 * 2
    # The baseline is one scenario, wherever a sweep passes through it.
    steps = at_baseline.groupby(["network", "data", "cost_model"])["step_s"]
    assert (steps.max() / steps.min() - 1).max() < 1e-12


def test_values_are_those_of_the_cluster_in_its_units(swept):
    for name, sweep in SWEEPS.items():
        part = swept[swept["swept"] == name]
        assert set(part.loc[part["at_baseline"], "value"]) == {getattr(HYPOTHETICAL, sweep.parameter)}
        assert set(part["unit"]) == {sweep.unit}
    nodes = set(swept.loc[swept["swept"] == "nodes", "value"])
    assert {1, 10, 100, 1000} <= nodes


def test_a_row_is_the_prediction_of_its_scenario(swept):
    row = swept[(swept["swept"] == "link") & (swept["value"] == 10e9) & (swept["cost_model"] == "full")].iloc[0]
    network = build_network(row["network"], row["data"])
    cluster = HYPOTHETICAL.scenario()
    step = predict_step(network, type(cluster)(**(vars(cluster) | {"link_bit_per_s": 10e9})), StepModel("full"))
    assert row["step_s"] == pytest.approx(float(step.step_s))
    assert row["epoch_s"] == pytest.approx(float(step.epoch_s(network.samples_per_epoch)))


def test_tables_say_that_they_are_modelled_and_what_is_assumed(swept):
    for frame in (swept, predict_networks()):
        assert frame["method"].str.startswith("modelled").all()
        assert frame["source"].str.contains("latency_s inferred").all()
        assert not frame.select_dtypes("object").columns.str.endswith(("_s", "_ratio")).any()


def test_networks_at_a_cluster():
    frame = predict_networks(HYPOTHETICAL)
    assert len(frame) == 4 * 2 * 3
    parts = ["forward_s", "input_gradient_s", "weight_gradient_s", "elementwise_s", "update_s"]
    assert (frame[parts].sum(axis=1) / frame["compute_s"] - 1).abs().max() < 1e-12
    assert (frame["communication_share_ratio"] * frame["step_s"] / frame["communication_s"] - 1).abs().max() < 1e-12


def test_a_cluster_without_a_batch_cannot_be_swept():
    with pytest.raises(ConfigError, match="no batch"):
        sweep_training(VALIDATION)
