"""Predictions of trainings whose ranks share samples."""

import math
from dataclasses import replace

import pytest
from unit.predict.what_if import studies

from hpcai.predict.what_if.hardware import measured_exchange
from hpcai.predict.what_if.step_model import UNEVEN_PARTS, ComputeTime, Setting, StepModel, setting_of

WHOLE = Setting(nodes=1, ranks=4, global_batch=8, precision="fp32", compression="none")
SHARED = replace(WHOLE, spatial_parts=4, part_bytes_per_sample=1e6)
LINK = measured_exchange(studies.link_fits(), 1, "horovod")
HALO_S = 2 * 5 * (studies.LATENCY_S / 2 + studies.WAITING_S) + 8 * 1e6 / studies.BANDWIDTH_BYTES_PER_S
"""Five convolutions wait both ways for a hop, half of an allreduce of two ranks, and 8 MB travel: by hand."""


def model(**changes: object) -> StepModel:
    by_samples = StepModel(lambda samples, _: ComputeTime(samples, 2 * samples, 0.5), (1000,), "a test")
    return replace(by_samples, **{"convolutions": 5, "shares_samples": True, **changes})


def test_a_part_of_a_sample_takes_its_share_and_waits_for_planes() -> None:
    whole, shared = (model().estimate(one, LINK) for one in (WHOLE, SHARED))
    assert (WHOLE.micro_batch, SHARED.micro_batch) == (2, 8)
    assert shared.compute_s == whole.compute_s == 3 * 2 + 0.5
    assert shared.communication_s - whole.communication_s == pytest.approx(HALO_S)
    assert shared.step_s - whole.step_s == pytest.approx(HALO_S)


def test_parts_along_rows_wait_twice() -> None:
    planes, both = (model(last_planes=most).estimate(SHARED, LINK) for most in (4, 2))
    waiting_s = 9 * (studies.LATENCY_S / 2 + studies.WAITING_S)  # the gather stays one exchange
    assert both.communication_s - planes.communication_s == pytest.approx(waiting_s)


def test_every_micro_batch_waits() -> None:
    twice, once = (model().estimate(replace(SHARED, accumulation=number), LINK) for number in (2, 1))
    assert twice.communication_s - once.communication_s == pytest.approx(
        2 * 5 * (studies.LATENCY_S / 2 + studies.WAITING_S)
    )


def test_planes_are_never_behind_computation() -> None:
    alike = [model(overlap=True).estimate(one, LINK) for one in (WHOLE, SHARED)]
    assert alike[1].exposed_s - alike[0].exposed_s == pytest.approx(HALO_S)


def test_the_batch_is_divided_among_replicas() -> None:
    assert replace(SHARED, ranks=32).why_impossible == ""
    assert replace(WHOLE, ranks=32).why_impossible != ""
    assert replace(SHARED, ranks=6).why_impossible == UNEVEN_PARTS(ranks=6, parts=4)


def test_kernels_of_whole_samples_predict_none() -> None:
    step = model(shares_samples=False).estimate(SHARED, LINK)
    assert math.isnan(step.step_s)
    assert step.reason


def test_a_calibrated_model_meets_the_measured_step() -> None:
    factor, reason = model().calibrate(SHARED, LINK, 20.0)
    assert not reason
    assert model().estimate(SHARED, LINK, factor).step_s == pytest.approx(20.0)


def test_a_row_of_scales_says_how_samples_are_shared() -> None:
    row = studies.scale(8, 16, 1.0, spatial_parts=4, part_bytes=8e6)
    setting = setting_of(row)
    assert (setting.spatial_parts, setting.micro_batch, setting.part_bytes_per_sample) == (4, 8, 1e6)
