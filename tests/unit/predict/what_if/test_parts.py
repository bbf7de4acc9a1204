"""Intervals, overlap, messages and published epochs by themselves."""

import math

import numpy as np
import pandas as pd
import pytest
from unit.predict.steps.made_blocks import make_step
from unit.predict.what_if import studies

from hpcai.predict.messages import count_messages
from hpcai.predict.training.layers import count_parameters
from hpcai.predict.what_if import PublishedEpochs, fit_published_epochs
from hpcai.predict.what_if.hardware import NO_ROOFS, exchange_s, measured_exchange, rank_rates
from hpcai.predict.what_if.intervals import TOO_FEW_ERRORS, centred_interval, interval_from
from hpcai.predict.what_if.published_epochs import ROUNDS
from hpcai.predict.what_if.step_model import ComputeTime, Setting, StepModel, sizes_of, timed_model
from hpcai.predict.what_if.training_time import TrainingParts, epochs_at

PARTS = TrainingParts(1.0, 2.0, 0.5, 0.25, 10.0, 3)
SIZES = (250,) * 4
"""1,000 bytes each."""


def test_interval_is_never_narrower_than_what_was_seen() -> None:
    seen = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0]
    interval = interval_from(seen, [1.0] * 10, "a test")
    assert interval.high_ratio == pytest.approx(5)
    assert interval.low_ratio <= 1


def test_interval_holds_the_prediction_even_if_all_errors_have_one_sign() -> None:
    interval = interval_from([2.0, 2.01, 1.99], [1.0] * 3, "a test")
    assert interval.low_ratio == 1
    assert interval.around(3.0)[0] == 3.0


def test_interval_of_two_errors_is_none() -> None:
    interval = interval_from([2.0, 1.0], [1.0, 1.0], "a test")
    assert math.isnan(interval.low_ratio)
    assert interval.basis == TOO_FEW_ERRORS(n=2, kind="a test", needed=3)


@pytest.mark.parametrize("n", [4, 13])
def test_a_centred_interval_holds_its_share_of_errors_without_bias(n: int) -> None:
    generator = np.random.default_rng(5)
    errors = np.exp(generator.normal(0, 0.1, (4000, n + 1)))
    bounds = [centred_interval(list(row[:n]), [1.0] * n, "a test", 0.9).around(1.0) for row in errors]
    inside = np.mean([low <= row[n] <= high for row, (low, high) in zip(errors, bounds, strict=True)])
    # Of normal errors a few are more inside than claimed: t spreads their root mean square, and so does 1 + 1/n.
    assert 0.9 <= inside <= 0.935


def test_a_centred_interval_is_as_wide_to_both_sides_and_knows_no_sign() -> None:
    high, low = (centred_interval([value, value, value], [1.0] * 3, "a test", 0.9) for value in (2.0, 0.5))
    assert (high.low_ratio, high.high_ratio) == pytest.approx((low.low_ratio, low.high_ratio))
    assert high.low_ratio * high.high_ratio == pytest.approx(1)
    assert high.high_ratio > 2
    none = centred_interval([1.0, 1.0], [1.0, 1.0], "a test", 0.9)
    assert none.basis == TOO_FEW_ERRORS(n=2, kind="a test", needed=3)


def test_messages_of_limited_size_each_pay_latency_and_coordination() -> None:
    exchange = measured_exchange(studies.link_fits(), 1, "horovod")
    whole, parts = (exchange_s(1000, exchange, 2, "none", messages) for messages in (1, count_messages(SIZES, 1000.0)))
    assert parts - whole == pytest.approx(3 * (studies.LATENCY_S + studies.WAITING_S))


def test_network_is_used_between_nodes_and_assumed_only_where_it_was_not_measured() -> None:
    fast = studies.link_fits("network").assign(bandwidth_bytes_per_s=5e9, source="network.json")
    both = pd.concat([studies.link_fits(), fast])
    assert measured_exchange(both, 2, "horovod").link_bit_per_s == pytest.approx(8 * 5e9)
    assert measured_exchange(both, 2, "horovod").assumed == ""
    assert "assumed" in measured_exchange(studies.link_fits(), 2, "horovod").assumed


def test_waiting_is_the_difference_of_lines_of_as_many_ranks() -> None:
    """A call of 8 ranks has more latency than a transfer of 2 because of its hops, not because it waits."""
    two = studies.link_fits()
    eight = two.assign(ranks=8, latency_s=two["latency_s"] + 7e-3, source="eight.json")
    waiting = 3 * studies.WAITING_S
    eight.loc[eight["what"] == "call", "latency_s"] += waiting - studies.WAITING_S
    both = measured_exchange(pd.concat([two, eight]), 1, "horovod")
    assert (both.source, both.coordination_s) == ("eight.json", pytest.approx(waiting))
    lost = eight[eight["what"] == "call"]
    common = measured_exchange(pd.concat([two, lost]), 1, "horovod")
    assert (common.source, common.coordination_s) == ("links.json", pytest.approx(studies.WAITING_S))
    apart = measured_exchange(pd.concat([two[two["what"] == "transfer"], lost]), 1, "horovod")
    assert (apart.source, apart.coordination_s) == ("eight.json", 0.0)
    assert exchange_s(0.0, apart, 8, "none", 1) == pytest.approx(float(lost["latency_s"].iloc[0]))


def test_roofs_of_a_rank_are_the_highest_with_its_threads() -> None:
    one = rank_rates(studies.ceilings(), 1, "fp32", studies.LAYERS)
    assert (one.peak_flop_per_s, one.memory_bytes_per_s, one.reason) == (studies.PEAK, studies.MEMORY, "")
    none = rank_rates(studies.ceilings(), 4, "fp32", studies.LAYERS)
    assert none.reason == NO_ROOFS(roofs=" and no ".join(("peak in fp32", "memory bandwidth")), threads=4)
    assert math.isnan(none.peak_flop_per_s)


def _step(overlap: bool, fusion_bytes: float | None = None, gradient_groups: int = 1) -> float:
    model = StepModel(lambda batch, precision: ComputeTime(0.1 * batch, 0.2 * batch, 0.01), SIZES, "a test", overlap)
    exchange = measured_exchange(studies.link_fits(), 1, "horovod")
    setting = Setting(1, 2, 4, "fp32", "none", fusion_bytes=fusion_bytes, gradient_groups=gradient_groups)
    return model.estimate(setting, exchange).step_s


def test_overlap_hides_all_but_the_last_message() -> None:
    exchange = measured_exchange(studies.link_fits(), 1, "horovod")
    last = exchange_s(250, exchange, 2, "none", 1)
    assert _step(True, 1000.0) == pytest.approx(0.61 + last)
    assert _step(False, 1000.0) == pytest.approx(0.61 + 4 * last)
    assert _step(True, None) == _step(False, None)
    assert _step(True, gradient_groups=4) == _step(True, 1000.0)


@pytest.mark.parametrize("measured_s", [0.5, 0.02])
def test_factor_meets_the_measured_step_with_and_without_overlap(measured_s: float) -> None:
    exchange = measured_exchange(studies.link_fits(), 1, "horovod")
    setting = Setting(1, 2, 4, "fp32", "none", accumulation=2, fusion_bytes=1000.0)
    for overlap in (False, True):
        model = StepModel(lambda batch, precision: ComputeTime(0.1, 0.2, 0.01), SIZES, "a test", overlap)
        factor, reason = model.calibrate(setting, exchange, measured_s)
        assert reason == ""
        assert model.estimate(setting, exchange, factor).step_s == pytest.approx(measured_s)


def _published() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = [
        {
            "origin": "v3.0", "method": method, "submission": f"s{place}", "org": "A", "benchmark": "cosmoflow",
            "system": f"x{place}", "scaling": "strong", "global_batch_samples": batch, "train_samples": 524288.0,
            "epochs": epochs, "epochs_std": 0.1, "kept": 8, "run_s": 100.0 + place, "epoch_s": 1.0, "units": 8,
            "compute_s": 90.0, "staging_share_ratio": 0.0, "evaluations": epochs, "same_runs_as": "",
            "quality_target": 0.124, "started_utc": "2023-06-01T00:00:00Z",
        }
        for place, (method, batch, epochs) in enumerate(
            [("published", 256, 10.0), ("published", 1024, 20.0), ("published", 4096, 40.0), ("measured", 16, 900.0)]
        )
    ]  # fmt: skip
    results = pd.DataFrame(rows)
    return results, results[["origin", "submission"]].assign(family="F")


def _curve() -> PublishedEpochs:
    references = pd.DataFrame(columns=["benchmark", "org", "train_samples", "global_batch_samples", "epochs", "kept"])
    scales = pd.DataFrame({"benchmark": ["small"], "workload": ["cosmoflow"]})
    return fit_published_epochs(*_published(), references, scales)["small"]


def test_epochs_change_as_those_of_published_rounds() -> None:
    curve = _curve()
    same = epochs_at(PARTS, (16, 16), "small", {"small": curve})
    assert same.number == 10
    other = epochs_at(PARTS, (256, 1024), "small", {"small": curve})
    assert 13 < other.number < 22
    assert ROUNDS(benchmark="cosmoflow", edition="524288 samples", submissions=3) in other.basis
    assert "extrapolated" not in other.basis
    assert "extrapolated" in epochs_at(PARTS, (16, 64), "small", {"small": curve}).basis
    unknown = epochs_at(PARTS, (16, 64), "small", {})
    assert math.isnan(unknown.number)
    assert "16 samples were measured" in unknown.basis


def test_curve_is_reproducible_and_needs_submissions() -> None:
    assert _curve().change_ratio(256, 512) == _curve().change_ratio(256, 512)
    assert _curve().change_ratio(256, 256) == pytest.approx(1)
    results, systems = _published()
    few = results[results["global_batch_samples"].isin([256, 16])]
    scales = pd.DataFrame({"benchmark": ["small"], "workload": ["cosmoflow"]})
    references = pd.DataFrame(columns=["benchmark", "train_samples", "global_batch_samples"])
    assert fit_published_epochs(few, systems, references, scales) == {}


def test_time_to_train_scales_only_its_steps() -> None:
    times = PARTS.time_to_train_s(10, 1.0), PARTS.time_to_train_s(10, 0.5), PARTS.time_to_train_s(20, 1.0)
    assert np.allclose(times, (1 + 25 + 0.25, 1 + 15 + 0.25, 1 + 50 + 0.25))


def test_a_timed_step_has_the_sizes_of_its_gradients_and_a_list_those_of_its_layers() -> None:
    listed, timed = sizes_of(studies.LAYERS), (3, 5)
    known = make_step(network=studies.LAYERS.name, gradient_sizes=timed)
    assert timed_model(studies.LAYERS, [known]).gradient_sizes == timed
    assert timed_model(studies.LAYERS, [make_step(network=studies.LAYERS.name)]).gradient_sizes == listed
    assert sum(listed) == count_parameters(studies.LAYERS)
