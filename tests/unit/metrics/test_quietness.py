"""Whether a machine was quiet, as columns of the tables."""

import math

import pandas as pd
import pytest
from unit.record_factory import make_record

from hpcai.core.disturbance import CoreUse, Disturbance, Quietness
from hpcai.core.stalls import Stalls, say_stall
from hpcai.metrics.quietness import DISTURBED, QUIET, UNKNOWN, quiet_columns, stall_remark
from hpcai.metrics.run_tables import collect_runs, read_records
from hpcai.metrics.scaling.scales import summarise_scales
from hpcai.metrics.summary import HOLD_A_PAUSE, summarise_study


def record_with(others_s, **changes):
    use = CoreUse(node="a", cores=2, wall_s=10.0, own_s=10.0, busy_s=10.0 + others_s, steal_s=0.1)
    record = make_record(**changes)
    quietness = Quietness(use=use, probe_before_flop_per_s=3e9, probe_after_flop_per_s=2e9)
    ranks = tuple(rank.model_copy(update={"quietness": quietness}) for rank in record.ranks)
    found = Disturbance(node="a", cores=2, wall_s=10.0, others_s=others_s, steal_s=0.1)
    return record.model_copy(update={"ranks": ranks, "disturbance": (found,)})


@pytest.mark.parametrize(("others_s", "word"), [(0.1, QUIET), (4.0, DISTURBED)], ids=["quiet", "disturbed"])
def test_shares_of_the_cores(others_s, word):
    found = quiet_columns(record_with(others_s))
    assert found.quiet == word
    assert found.others_ratio == pytest.approx(others_s / 20.0)
    assert found.steal_ratio == pytest.approx(0.005)
    assert (found.probe_before_flop_per_s, found.probe_after_flop_per_s) == (3e9, 2e9)


def test_a_record_that_tells_nothing():
    found = quiet_columns(make_record())
    assert found.quiet == UNKNOWN
    assert math.isnan(found.others_ratio)
    assert math.isnan(found.probe_before_flop_per_s)


def test_disturbed_runs_are_counted_where_their_mean_stands(tmp_path):
    paths = []
    for number, others_s in enumerate((0.1, 4.0, 6.0), start=1):
        record = record_with(others_s, repetition=number)
        paths.append(tmp_path / f"r{number}.json")
        paths[-1].write_text(record.model_dump_json())
    runs = collect_runs(paths)
    assert runs["quiet"].tolist() == [QUIET, DISTURBED, DISTURBED]
    (row,) = summarise_scales(runs).to_dict("records")
    assert (row["n_disturbed"], row["others_max_ratio"]) == (2, pytest.approx(0.3))
    unknown = summarise_scales(runs.assign(quiet=UNKNOWN, others_ratio=math.nan))
    assert pd.isna(unknown["n_disturbed"]).all()


def record_with_pause(longest_s=None, **changes):
    record = make_record(**changes)
    count = 0 if longest_s is None else 1
    found = Stalls(count=count, longest_s=longest_s, beside_s=0.02 if count else None)
    update = {"stalls": found, "longest_gap_s": longest_s or 0.9}
    return record.model_copy(update={"training": record.training.model_copy(update=update)})


def test_a_pause_is_told_in_the_table_of_runs():
    found = quiet_columns(record_with_pause(20.1))
    assert (found.longest_gap_s, found.stalls, found.stall_max_s, found.stall_beside_s) == (20.1, 1, 20.1, 0.02)
    assert stall_remark(record_with_pause(20.1)) == f"stalled: {say_stall(20.1, 0.02)}"
    none = quiet_columns(record_with_pause())
    assert (none.longest_gap_s, none.stalls) == (0.9, 0)
    assert math.isnan(none.stall_max_s)
    assert stall_remark(record_with_pause()) == ""


@pytest.mark.parametrize("outcome", ["failed", "converged"])
def test_pauses_that_nobody_looked_for_are_not_none(outcome):
    record = make_record(outcome)
    if record.training:
        unknown = {"stalls": None, "longest_gap_s": None}
        record = record.model_copy(update={"training": record.training.model_copy(update=unknown)})
    found = quiet_columns(record)
    assert math.isnan(found.stalls)
    assert math.isnan(found.longest_gap_s)
    assert stall_remark(record) == ""


def test_runs_with_pauses_are_counted_where_their_mean_stands_and_named_in_the_first_sentence(tmp_path):
    paths = []
    for number, longest_s in enumerate((None, 20.1, 3.0), start=1):
        paths.append(tmp_path / f"r{number}.json")
        paths[-1].write_text(record_with_pause(longest_s, repetition=number).model_dump_json())
    runs = collect_runs(paths)
    scales = summarise_scales(runs)
    (row,) = scales.to_dict("records")
    assert (row["n_stalled"], row["stall_max_s"], row["stall_beside_s"]) == (2, 20.1, 0.02)
    said = summarise_study(runs, scales, read_records(paths))["verdict"]
    assert HOLD_A_PAUSE.find_in(said)["runs"] == "2"
    assert f"include a pause: cosmoflow_tiny/fp32/n1x1/r2 ({say_stall(20.1, 0.02)})" in said
    unknown = summarise_scales(runs.assign(stalls=math.nan))
    assert pd.isna(unknown["n_stalled"]).all()
