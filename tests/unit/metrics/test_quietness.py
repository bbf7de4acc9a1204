"""Whether a machine was quiet, as columns of the tables."""

import math

import pandas as pd
import pytest
from unit.record_factory import make_record

from hpcai.disturbance import CoreUse, Disturbance, Quietness
from hpcai.metrics.quietness import DISTURBED, QUIET, UNKNOWN, quiet_columns
from hpcai.metrics.scales import summarise_scales
from hpcai.tables import collect_runs


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
