"""Errors of estimates: definitions, and the identities that hold for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.predict.errors_of_estimates import (
    relative_errors,
    total_error_ratio,
    weighted_error_ratio,
    weighted_errors,
)

TIME_S = st.floats(1e-6, 1e3)
PAIRS = st.lists(st.tuples(TIME_S, TIME_S), min_size=1, max_size=30)


def test_signs_and_weights():
    estimated, measured = [1.5, 8.0], [1.0, 10.0]
    assert relative_errors(estimated, measured) == pytest.approx([0.5, -0.2])
    assert weighted_errors(estimated, measured) == pytest.approx([0.5 / 5.5, -2 / 5.5])
    assert weighted_error_ratio(estimated, measured) == pytest.approx(2.5 / 11)
    assert total_error_ratio(estimated, measured) == pytest.approx(-1.5 / 11)


@given(PAIRS)
def test_the_mean_of_weighted_errors_is_all_error_over_all_time(pairs):
    estimated, measured = np.array(pairs).T
    assert weighted_error_ratio(estimated, measured) == pytest.approx(
        np.abs(estimated - measured).sum() / measured.sum(), rel=1e-9
    )


@given(PAIRS)
def test_errors_cancel_in_sums_only(pairs):
    estimated, measured = np.array(pairs).T
    of_sums = abs(estimated.sum() - measured.sum()) / measured.sum()
    assert weighted_error_ratio(estimated, measured) >= of_sums - 1e-9
    assert abs(total_error_ratio(estimated, measured)) == pytest.approx(of_sums, rel=1e-6, abs=1e-12)


@given(PAIRS, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(pairs, factor):
    estimated, measured = np.array(pairs).T
    scaled = weighted_error_ratio(estimated * factor, measured * factor)
    assert scaled == pytest.approx(weighted_error_ratio(estimated, measured), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("estimated", "measured"), [([1.0], [1.0, 2.0]), ([], []), ([1.0], [0.0]), ([1.0], [np.nan])])
@pytest.mark.parametrize("measure", [relative_errors, weighted_errors, weighted_error_ratio, total_error_ratio])
def test_times_that_cannot_be_compared_are_refused(measure, estimated, measured):
    with pytest.raises(ValueError, match="measured"):
        measure(estimated, measured)
