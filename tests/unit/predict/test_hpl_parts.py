"""Parts of HPL runs: modelled, and by HPL's own timers."""

import numpy as np
import pytest
from unit.predict.test_hpl_validation import rates, run

from hpcai.predict.hpl_parts import NO_TIMERS, REST, compare_parts
from hpcai.predict.hpl_validation import NO_RATES, UNKNOWN_LIBRARY, validate_hpl

TIMES = {"panel_time_s": 0.21, "update_time_s": 5.9, "exchange_time_s": 0.3, "substitution_time_s": 0.05}
NOT_TIMED = dict.fromkeys(TIMES, float("nan"))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1)])
def test_parts_add_up_to_the_run_and_to_its_error(rows: int, columns: int) -> None:
    runs = run(process_rows=rows, process_columns=columns, **TIMES)
    parts = compare_parts(runs, rates())
    whole = validate_hpl(runs, rates()).set_index("model").loc["all parts"]
    assert parts["measured_s"].sum() == pytest.approx(whole["measured_time_s"])
    assert parts["modelled_s"].sum() == pytest.approx(whole["predicted_time_s"])
    assert parts["share_of_error_ratio"].sum() == pytest.approx(whole["error_ratio"])
    assert set(parts["reason"]) == {""}


def test_each_part_is_what_its_timer_counts() -> None:
    measured = compare_parts(run(**TIMES), rates()).set_index("part")["measured_s"]
    expected = {"panels": 0.21, "row exchanges": 0.3, "update and solve": 5.6, "back substitution": 0.05, REST: 0.135}
    assert measured.to_dict() == pytest.approx(expected)


def test_a_process_waits_while_other_columns_factorise() -> None:
    whole = validate_hpl(run(process_columns=2), rates()).set_index("model").loc["all parts"]
    modelled = compare_parts(run(process_columns=2, **TIMES), rates()).set_index("part")["modelled_s"]
    assert modelled["panels"] == pytest.approx(whole["panel_s"] / 2)
    assert modelled[REST] == pytest.approx(whole["broadcast_s"] + whole["panel_s"] / 2)


def test_what_is_not_known_says_why() -> None:
    untimed = compare_parts(run(**NOT_TIMED), rates())
    assert untimed["measured_s"].isna().all()
    assert untimed["modelled_s"].notna().all()
    assert set(untimed["reason"]) == {NO_TIMERS()}
    unrated = compare_parts(run(**TIMES), rates(panel=np.nan)).set_index("part")["reason"]
    assert {part for part, reason in unrated.items() if reason == NO_RATES()} == {"panels", REST}


def test_rates_of_another_library_model_no_part() -> None:
    parts = compare_parts(run(library="", **TIMES), rates())
    assert parts["modelled_s"].isna().all()
    assert set(parts["reason"]) == {UNKNOWN_LIBRARY()}


def test_a_run_without_a_time_has_no_parts() -> None:
    assert compare_parts(run(measured_time_s=np.nan, **NOT_TIMED), rates()).empty
