"""Allreduces beside the ring model: each size is predicted from the others alone."""

import pandas as pd
import pytest

from hpcai.predict.steps.validation import ALLREDUCE_COLUMNS, judge_allreduces

SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]


def make_links(what: str = "call", **changed: float) -> pd.DataFrame:
    times = [1e-3 + size / 1e9 for size in SIZES]
    place = {"what": what, "engine": "horovod", "scope": "node", "ranks": 2}
    return pd.DataFrame({**place, "bytes": SIZES, "time_s": times, "source": "f", **changed})


def test_a_line_is_predicted_exactly_and_transfers_are_left_out():
    found = judge_allreduces(pd.concat([make_links(), make_links("transfer")]))
    assert found["bytes"].tolist() == SIZES
    assert found["relative_error_ratio"].abs().max() < 1e-6


def test_a_size_that_is_off_does_not_help_to_predict_itself():
    links = make_links()
    links.loc[4, "time_s"] *= 2
    last = judge_allreduces(links).iloc[4]
    assert last["relative_error_ratio"] == pytest.approx(-0.5, abs=0.01)
    assert last["weighted_error_ratio"] == pytest.approx(-11e-3 / links["time_s"].mean(), rel=0.02)


def test_too_few_sizes_have_a_reason_and_no_links_no_rows():
    few = judge_allreduces(make_links().iloc[:3])
    assert few["predicted_s"].isna().all()
    assert few["reason"].all()
    assert judge_allreduces(pd.DataFrame()).columns.tolist() == list(ALLREDUCE_COLUMNS)
