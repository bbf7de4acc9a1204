"""Predictions of a study against the equations by hand: steps, rates, times to train, reasons and accuracy."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from unit.predict.kernels.made_regressors import make_constant_regressor
from unit.predict.steps.made_blocks import make_block, make_step
from unit.predict.what_if import studies

from hpcai.config.prediction import Prediction
from hpcai.metrics.scaling.model_limits import CALIBRATION_RATIOS, LEAST_COVERED_RATIO, NOT_COVERED, TOO_EFFICIENT
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.steps.compute import STEPS
from hpcai.predict.what_if import StudyModels, outcome, predict_study
from hpcai.predict.what_if.accuracy import COMPRESSION, KINDS, MORE, PRECISION
from hpcai.predict.what_if.answers import NO_LINK_COMPARED
from hpcai.predict.what_if.hardware import ASSUMED_LINKS, NO_ALLREDUCE, NO_ROOFS, rank_rates
from hpcai.predict.what_if.intervals import FEWEST_ERRORS, TOO_FEW_ERRORS
from hpcai.predict.what_if.step_model import NO_MODEL, SLOW_EXCHANGE, TIMED_MODELS, UNEVEN_BATCH
from hpcai.predict.what_if.study import ONE_PRECISION

CLOSE = 2e-3
"""Element-wise layers and the update have a small part, which scales differently."""
FAST = {"name": "fast", "bandwidth_bytes_per_s": "80 Gbit/s", "latency_s": 1e-6}


def predict(tables: Any, machine: Any = None, **asked: Any) -> dict[str, pd.DataFrame]:
    models = StudyModels({"small": studies.LAYERS}, machine or studies.machine())
    return predict_study(tables, models, Prediction.model_validate(asked))


def only(frame: pd.DataFrame, **wanted: Any) -> "pd.Series[Any]":
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_other_scale_by_hand() -> None:
    found = predict(studies.tables(*studies.exact(1, 2)), ranks=[1, 2, 4])["predictions"]
    row = only(found, question="scale")
    expected = studies.compute_s(4) + studies.exchange_s(4)
    assert (row["scale_words"], row["from_scale"], row["regime"]) == ("n2x2", "n1x2", "strong")
    assert row["step_s"] == pytest.approx(expected, rel=CLOSE)
    assert row["communication_s"] == pytest.approx(studies.exchange_s(4))
    assert row["communication_share_ratio"] == pytest.approx(studies.exchange_s(4) / expected, rel=CLOSE)
    assert row["calibration_ratio"] == pytest.approx(studies.FACTOR, rel=CLOSE)
    base = studies.compute_s(16)
    assert row["speedup_ratio"] == pytest.approx(base / expected, rel=CLOSE)
    assert row["efficiency_ratio"] == pytest.approx(base / expected / 4, rel=CLOSE)
    assert row["rate_flop_per_s"] == pytest.approx(16 / expected * 1e6, rel=CLOSE)
    assert row["vflops_flop_per_s"] == pytest.approx(8 / expected * 1e6, rel=CLOSE)
    assert row["time_to_train_s"] == pytest.approx(1 + 4 * (4 * expected + 0.5) + 0.25, rel=CLOSE)
    assert row["epochs"] == 4
    assert row["method"] == "modelled"
    assert ASSUMED_LINKS() in row["assumed"]
    assert outcome.MORE_RANKS(ranks=4, times=2, largest=2) in row["extrapolated"]
    assert outcome.MORE_NODES(nodes=2, most=1) in row["extrapolated"]
    assert {"memory.json", "gemm.json", "links.json"} <= set(row["source"].split(", "))


def test_measured_rate_and_its_change() -> None:
    rows = studies.exact(1, 2)
    rows[1]["train_rate_samples_per_s"] *= 0.5
    row = only(predict(studies.tables(*rows), ranks=[4])["predictions"], question="scale")
    expected = studies.compute_s(4) + studies.exchange_s(4)
    assert row["rate_samples_per_s"] == pytest.approx(0.5 * 16 / expected, rel=CLOSE)


def test_weak_regime_keeps_the_batch_of_a_rank_and_needs_epochs() -> None:
    rows = [studies.scale(n, 8 * n, studies.compute_s(8) + studies.exchange_s(n)) for n in (1, 2)]
    row = only(predict(studies.tables(*rows), ranks=[4])["predictions"], question="scale")
    assert (row["regime"], row["global_batch_samples"]) == ("weak", 32)
    assert row["step_s"] == pytest.approx(studies.compute_s(8) + studies.exchange_s(4), rel=CLOSE)
    assert math.isnan(row["epochs"])
    assert math.isnan(row["time_to_train_s"])
    assert "no curve of published rounds" in row["time_to_train_reason"]


def test_what_cannot_run_is_a_row_with_a_reason() -> None:
    found = predict(studies.tables(*studies.exact(1, 2)), ranks=[32, 3])["predictions"]
    many, odd = only(found, ranks=32), only(found, ranks=3)
    assert many["reason"] == UNEVEN_BATCH(samples=16, parts="32 ranks")
    assert odd["reason"] == outcome.UNEVEN_RANKS(ranks=3, nodes=2, most=2)
    numbers = [name for name in found if name.endswith(("_s", "_ratio"))]
    assert found[numbers].isna().all(axis=None)


def test_other_link_changes_the_exchange_alone() -> None:
    found = predict(studies.tables(*studies.exact(1, 2)), links=[FAST])["predictions"]
    row = only(found, question="link")
    exchange = studies.WAITING_S + 2 * 1e-6 + 4 * studies.PARAMETERS / 1e10
    assert (row["link"], row["from_scale"], row["scale_words"]) == ("fast", "n1x2", "n1x2")
    assert row["communication_s"] == pytest.approx(exchange)
    assert row["compute_s"] == pytest.approx(studies.compute_s(8), rel=CLOSE)
    assert math.isnan(row["step_low_s"])
    assert row["interval_basis"] == NO_LINK_COMPARED
    assert "coordination of 1 ms" in row["assumed"]


def test_other_precision_and_compression() -> None:
    found = predict(studies.tables(*studies.exact(1, 2)), precisions=["fp32", "bf16", "fp16"], compressions=["fp16"])
    rows = found["predictions"]
    half = only(rows, question="precision", precision="bf16", from_scale="n1x1")
    assert half["compute_s"] == pytest.approx(studies.compute_s(16) / 4, rel=5e-3)
    missing = only(rows, question="precision", precision="fp16", from_scale="n1x1")
    model, roofs = NO_MODEL(precision="fp16", model="roofline full"), NO_ROOFS(roofs="peak in fp16", threads=1)
    assert missing["reason"] == f"{model}: {roofs}"
    assert not (rows["precision"] == "fp32").loc[rows["question"] == "precision"].any()
    small = only(rows, question="compression")
    assert small["from_scale"] == "n1x2"
    assert small["communication_s"] == pytest.approx(studies.exchange_s(2, 0.5))


def test_accuracy_of_held_out_points_and_the_interval_they_make() -> None:
    errors = (1.2, 0.9, 1.5, 1.1)
    scales = []
    for place, error in enumerate(errors):
        one, two = studies.exact(1, 2)
        scales += [one | {"variant": f"v{place}"}, two | {"variant": f"v{place}"}]
        scales[-1]["step_time_median_s"] *= error
    found = predict(studies.tables(*scales), ranks=[4])
    accuracy = found["prediction_accuracy"]
    more = accuracy[(accuracy["question"] == "more ranks")]
    assert len(accuracy) == 2 * len(more) == 8
    assert (1 / (1 + more["relative_error_ratio"])).tolist() == pytest.approx(errors, rel=CLOSE)
    assert accuracy["used_for_interval"].all()
    row = found["predictions"].iloc[0]
    logs = np.log(errors)
    reach = 3.182446305 * logs.std(ddof=1) * math.sqrt(1.25)
    assert row["step_high_s"] / row["step_s"] == pytest.approx(math.exp(logs.mean() + reach), rel=CLOSE)
    assert row["step_low_s"] / row["step_s"] == pytest.approx(math.exp(logs.mean() - reach), rel=CLOSE)
    assert row["interval_n"] == 4
    assert row["speedup_low_ratio"] < row["speedup_ratio"] < row["speedup_high_ratio"]
    assert row["time_to_train_low_s"] < row["time_to_train_s"] < row["time_to_train_high_s"]


def test_two_points_make_no_interval() -> None:
    row = predict(studies.tables(*studies.exact(1, 2)), ranks=[4])["predictions"].iloc[0]
    assert math.isnan(row["step_low_s"])
    assert TOO_FEW_ERRORS(n=1, kind=KINDS[MORE], needed=FEWEST_ERRORS) in row["interval_basis"]
    assert row["interval_n"] == 1


def test_variants_are_predicted_from_plainer_ones_that_differ_in_one_thing() -> None:
    plain = studies.exact(2)[0]
    packed = plain | {"variant": "packed", "compression": "fp16"}
    both = plain | {"variant": "both", "compression": "fp16", "precision": "bf16"}
    accuracy = predict(studies.tables(plain, packed, both))["prediction_accuracy"]
    pairs = accuracy[["variant", "basis", "question"]].to_records(index=False).tolist()
    assert pairs == [
        ("packed", f"n1x2 of variant fp32: {KINDS[COMPRESSION]}", "compression"),
        ("both", f"n1x2 of variant packed: {KINDS[PRECISION]}", "precision"),
    ]
    packed_row = only(accuracy, variant="packed")
    assert packed_row["predicted_step_s"] == pytest.approx(studies.compute_s(8) + studies.exchange_s(2, 0.5), rel=CLOSE)


def test_own_steps_against_the_roofline_without_a_factor() -> None:
    steps = predict(studies.tables(*studies.exact(1, 2)))["own_steps"]
    assert set(steps["quiet"]) == {"disturbed"}
    assert set(steps["others_ratio"]) == {0.1}
    row = only(steps, scale="n1x2", cost_model="gemm", stage="step")
    estimated = studies.compute_s(8) / studies.FACTOR + studies.exchange_s(2)
    assert row["estimated_s"] == pytest.approx(estimated, rel=CLOSE)
    assert row["relative_error_ratio"] == pytest.approx(estimated / row["measured_s"] - 1)
    assert (row["origin"], row["batch"], row["overhead"]) == ("own run", 8, "none")
    assert pd.isna(row["within_goal"])
    alone = only(steps, scale="n1x1", cost_model="full", stage="communication")
    assert alone["estimated_s"] == 0
    assert math.isnan(alone["measured_s"])


def test_step_shorter_than_its_modelled_exchange_has_a_reason() -> None:
    rows = [studies.scale(2, 16, 0.5 * studies.exchange_s(2), baseline="n1x2")]
    row = predict(studies.tables(*rows), ranks=[4])["predictions"].iloc[0]
    assert SLOW_EXCHANGE.find_in(row["reason"])
    assert math.isnan(row["step_s"])


def test_no_allreduce_measured() -> None:
    found = predict(studies.tables(*studies.exact(1), fits=studies.link_fits().iloc[:0]), ranks=[2])["predictions"]
    assert found.iloc[0]["reason"] == NO_ALLREDUCE(engine="horovod")


def test_no_training_that_converged_has_a_step_but_no_time_to_train() -> None:
    rows = studies.exact(1, 2)
    runs = [studies.run(2, 0.1, outcome="not converged")]
    row = predict(studies.tables(*rows, runs=runs, scores=[studies.score(2, math.nan)]), ranks=[4])["predictions"].iloc[
        0
    ]
    assert row["step_s"] > 0
    assert math.isnan(row["time_to_train_s"])
    assert row["time_to_train_reason"] == outcome.NO_TRAINING
    assert math.isnan(row["vflops_flop_per_s"])
    assert "no quality coefficient" in row["vflops_reason"]
    assert row["rate_flop_per_s"] > 0


def test_staging_before_the_clock_is_not_counted() -> None:
    rows = studies.exact(1, 2)
    step = rows[1]["step_time_median_s"]
    runs = [studies.run(2, step, time_staging=False, time_to_train_s=4 * (4 * step + 0.5) + 0.25)]
    row = predict(studies.tables(*rows, runs=runs), ranks=[4])["predictions"].iloc[0]
    expected = studies.compute_s(4) + studies.exchange_s(4)
    assert row["time_to_train_s"] == pytest.approx(4 * (4 * expected + 0.5) + 0.25, rel=CLOSE)


def test_nothing_asked_and_nothing_measured_keep_the_columns() -> None:
    full, empty = (
        predict(studies.tables(*studies.exact(1, 2)), ranks=[4]),
        predict(studies.tables(*studies.exact(1, 2))),
    )
    assert full["predictions"].dtypes.equals(empty["predictions"].dtypes)
    assert empty["predictions"].empty


def test_regressors_that_are_further_off_make_no_interval() -> None:
    kernels = ("gemm_forward", "gemm_input_gradient", "gemm_weight_gradient", "sgd")
    regressors = {kernel: make_constant_regressor(kernel, 7e-4) for kernel in kernels}
    models = StudyModels({"small": studies.LAYERS}, studies.machine(), regressors)
    bf16 = studies.exact(2)[0] | {"variant": "bf16", "precision": "bf16"}
    found = predict_study(studies.tables(*studies.exact(1, 2), bf16), models, Prediction())
    steps = found["own_steps"]
    row = only(steps, cost_model="regressors", scale="n1x2", variant="fp32", stage="step")
    kernels_s = estimate_step(studies.LAYERS, 8, regressors).step_s
    assert kernels_s >= 5e-3
    assert row["estimated_s"] == pytest.approx(kernels_s + studies.exchange_s(2))
    assert row["goal_ratio"] == 0.3
    assert bool(row["within_goal"]) == (abs(row["relative_error_ratio"]) <= 0.3)
    assert 0 < row["covered_ratio"] <= 1
    other = only(steps, cost_model="regressors", variant="bf16", stage="step")
    assert math.isnan(other["estimated_s"])
    assert ONE_PRECISION in other["reason"]
    accuracy = found["prediction_accuracy"]
    summed = accuracy[accuracy["cost_model"] == "regressors"]
    assert len(summed) == 2
    assert not summed["used_for_interval"].any()
    assert summed["predicted_step_s"].notna().all()


def test_the_model_that_is_less_far_off_predicts() -> None:
    """Computing takes the same time for any batch, as these kernels do and the roofline does not."""
    kernels = ("gemm_forward", "gemm_input_gradient", "gemm_weight_gradient", "sgd")
    regressors = {kernel: make_constant_regressor(kernel, 7e-4) for kernel in kernels}
    models = StudyModels({"small": studies.LAYERS}, studies.machine(), regressors)
    kernels_s = estimate_step(studies.LAYERS, 8, regressors).step_s
    scales = [studies.scale(n, 16, kernels_s + studies.exchange_s(n)) for n in (1, 2)]
    scales.append(studies.exact(2)[0] | {"variant": "bf16", "precision": "bf16"})
    asked = Prediction(ranks=(4,), precisions=("bf16",))
    found = predict_study(studies.tables(*scales), models, asked)
    accuracy = found["prediction_accuracy"]
    assert (
        accuracy["used_for_interval"].tolist()
        == ((accuracy["cost_model"] == "regressors") | (accuracy["question"] == "precision")).tolist()
    )
    single = only(found["predictions"], question="scale", variant="fp32")
    assert (single["cost_model"], single["interval_n"]) == ("regressors", 1)
    assert single["step_s"] == pytest.approx(kernels_s + studies.exchange_s(4), rel=CLOSE)
    assert "regressors" in single["source"]
    # Kernels were measured in single precision only.
    others = found["predictions"].query("question == 'precision' or variant == 'bf16'")
    assert set(others["cost_model"]) == {"roofline full"}


KERNELS = ("gemm_forward", "gemm_input_gradient", "gemm_weight_gradient", "sgd")


def with_regressors(kernel_s: float, kernels: tuple[str, ...] = KERNELS) -> StudyModels:
    made = {kernel: make_constant_regressor(kernel, kernel_s) for kernel in kernels}
    return StudyModels({"small": studies.LAYERS}, studies.machine(), made)


def scaled(factor: float) -> list[dict[str, Any]]:
    """Return two scales whose computation takes a multiple of the roofline's time."""
    times = factor / studies.FACTOR
    return [studies.scale(n, 16, times * studies.compute_s(16 / n) + studies.exchange_s(n)) for n in (1, 2)]


@pytest.mark.parametrize("factor", [72, 2.1, 0.49])
def test_a_model_that_is_far_off_its_own_start_predicts_nothing(factor: float) -> None:
    found = predict(studies.tables(*scaled(factor)), ranks=[4])
    row = only(found["predictions"], question="scale")
    said = re.search(r"the measured computation is (\S+) times the modelled one", row["reason"])
    assert said is not None
    assert float(said[1]) == pytest.approx(factor, rel=1e-2)
    numbers = [name for name in found["predictions"] if name.endswith(("_s", "_ratio"))]
    assert found["predictions"][numbers].isna().all(axis=None)
    accuracy = found["prediction_accuracy"]
    assert accuracy["predicted_step_s"].isna().all()
    assert not accuracy["used_for_interval"].any()
    assert accuracy["reason"].str.contains("expected 0.5 to 2").all()


def test_the_limits_of_a_calibration_are_allowed() -> None:
    low, high = CALIBRATION_RATIOS
    for factor in (low * 1.01, high * 0.99):
        row = only(predict(studies.tables(*scaled(factor)), ranks=[4])["predictions"], question="scale")
        assert row["calibration_ratio"] == pytest.approx(factor, rel=CLOSE)


def test_the_model_that_can_be_scaled_predicts() -> None:
    """The roofline is off by three, the kernels are not."""
    kernels_s = estimate_step(studies.LAYERS, 8, with_regressors(3e-3).regressors).step_s
    scales = [studies.scale(n, 16, kernels_s + studies.exchange_s(n)) for n in (1, 2)]
    found = predict_study(studies.tables(*scales), with_regressors(3e-3), Prediction(ranks=(4,)))
    row = only(found["predictions"], question="scale")
    assert (row["cost_model"], row["reason"], row["interval_n"]) == ("regressors", "", 1)
    accuracy = found["prediction_accuracy"].set_index("cost_model")
    assert accuracy.loc["roofline full", "predicted_step_s"].isna().all()
    assert accuracy.loc["regressors", "used_for_interval"].all()


def test_kernels_that_cover_too_little_estimate_no_step() -> None:
    models = with_regressors(7e-4, ("gemm_input_gradient",))
    found = predict_study(studies.tables(*studies.exact(1, 2)), models, Prediction(ranks=(4,)))
    row = only(found["own_steps"], cost_model="regressors", scale="n1x2", stage="step")
    assert math.isnan(row["estimated_s"])
    assert math.isnan(row["relative_error_ratio"])
    assert pd.isna(row["within_goal"])
    assert 0 < row["covered_ratio"] < LEAST_COVERED_RATIO
    assert NOT_COVERED.find_in(row["reason"])["least"] == "90%"
    assert only(found["predictions"], question="scale")["cost_model"] == "roofline full"


def test_an_efficiency_above_one_is_no_prediction() -> None:
    """The base took twice as long as its model predicts; the scale of the starting point did not."""
    base, two = studies.exact(1, 2)
    base["train_rate_samples_per_s"] /= 2.5
    rows = predict(studies.tables(base, two), ranks=[4], links=[FAST])["predictions"]
    row = only(rows, question="scale")
    assert "its efficiency would be" in row["reason"]
    found = TOO_EFFICIENT.find_in(row["reason"])
    assert (found["base"], found["most"]) == ("n1x1", "1")
    assert math.isnan(row["efficiency_ratio"])
    assert math.isnan(row["step_s"])
    other = only(rows, question="link")
    assert other["speedup_ratio"] > 2
    assert math.isnan(other["efficiency_ratio"])
    assert other["efficiency_reason"] == outcome.OTHER_BASE(base="n1x1", what="link")


def test_another_precision_has_a_speed_up_and_no_efficiency_above_one() -> None:
    rows = predict(studies.tables(*studies.exact(1, 2)), precisions=["bf16"])["predictions"]
    row = only(rows, from_scale="n1x1")
    assert row["speedup_ratio"] > 3.9
    assert rows["efficiency_ratio"].isna().all()
    assert "has another precision" in row["efficiency_reason"]


def test_the_interval_of_an_efficiency_ends_at_one() -> None:
    scales = []
    for place, error in enumerate((1.0, 0.7, 1.5, 1.4)):
        one, two = studies.exact(1, 2)
        scales += [one | {"variant": f"v{place}"}, two | {"variant": f"v{place}"}]
        scales[-1]["step_time_median_s"] *= error
    rows = predict(studies.tables(*scales), ranks=[4])["predictions"]
    row = only(rows, variant="v0")
    assert row["speedup_high_ratio"] > 4 * row["efficiency_high_ratio"]
    assert row["efficiency_high_ratio"] == 1
    assert not (rows["efficiency_ratio"] > 1).any()


def test_a_ceiling_that_was_not_measured_is_the_reason() -> None:
    tables = studies.tables(*studies.exact(1, 2))
    lost = tables.ceilings.assign(value=math.nan, status="not measured", reason="too few cores")
    row = predict(replace(tables, ceilings=lost), ranks=[4])["predictions"].iloc[0]
    found = NO_ROOFS.find_in(row["reason"])
    assert found["roofs"].endswith("memory bandwidth")
    assert found["threads"] == "1"
    assert row["reason"].endswith(": too few cores")
    assert math.isnan(row["step_s"])


def test_a_refused_ceiling_is_no_roof() -> None:
    ceilings = studies.ceilings()
    high = ceilings[ceilings["precision"] == "fp32"].assign(value=9 * studies.PEAK, status="refused")
    rates = rank_rates(pd.concat([ceilings, high]), 1, "fp32", studies.LAYERS)
    assert rates.peak_flop_per_s == studies.PEAK


def timed_steps(*batches: int, slower: float = 1.0) -> tuple[Any, ...]:
    """Steps that take as long as the study's, or so many times as long."""
    times_s = {batch: slower * studies.compute_s(batch) for batch in batches}
    return tuple(
        make_step(make_block(count=1, time_s=time_s), network="small", batch=batch, step_s=time_s, update_s=1e-9)
        for batch, time_s in times_s.items()
    )


def predict_with_timed(steps: Any, **asked: Any) -> dict[str, pd.DataFrame]:
    models = StudyModels({"small": studies.LAYERS}, studies.machine(), steps=steps)
    return predict_study(studies.tables(*studies.exact(1, 2)), models, Prediction.model_validate(asked))


@pytest.mark.parametrize("what", TIMED_MODELS)
def test_a_step_that_was_timed_at_both_batches_predicts_as_a_whole_or_as_the_sum_of_its_blocks(what: str) -> None:
    first, *others = timed_steps(4, 8, 16)
    steps = [first if what == STEPS else first.model_copy(update={"step_s": None}), *others]
    found = predict_with_timed(steps, ranks=[4])
    row = only(found["predictions"], question="scale")
    assert row["cost_model"] == TIMED_MODELS[what]
    assert row["step_s"] == pytest.approx(studies.compute_s(4) + studies.exchange_s(4), rel=CLOSE)
    assert row["calibration_ratio"] == pytest.approx(1, rel=CLOSE)
    assert "results/predict/" in row["source"]
    assert "step_blocks.json" in row["source"]
    used = found["prediction_accuracy"]
    assert set(used[used["used_for_interval"]]["cost_model"]) == {TIMED_MODELS[what]}


@pytest.mark.parametrize(("steps", "asked"), [((8, 16), "blocks"), ((4, 8, 16), "roofline"), ((), "blocks")])
def test_elsewhere_or_on_request_the_roofline_predicts(steps: Any, asked: str) -> None:
    found = predict_with_timed(timed_steps(*steps), ranks=[4], cost_model=asked)
    assert only(found["predictions"], question="scale")["cost_model"] == "roofline full"


def test_a_timed_step_far_off_the_measured_one_predicts_nothing() -> None:
    found = predict_with_timed(timed_steps(4, 8, 16, slower=3.0), ranks=[4])
    assert only(found["predictions"], question="scale")["cost_model"] == "roofline full"
