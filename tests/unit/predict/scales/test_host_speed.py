"""The host's speed, from scales of a study that trained again."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from unit.predict.scales.made_scales import make_point
from unit.record_factory import make_machine, make_record, write_records

from hpcai.core.errors import ConfigError
from hpcai.predict.scales import host_speed
from hpcai.predict.scales.host_speed import Again, HostSpeed, read_host_speed
from hpcai.predict.what_if.intervals import centred_interval

POINTS = (make_point("one", 1, 8, variant="usual"), make_point("one", 2, 8), make_point("two", 1, 8))
STUDY_UTC, LATER_UTC = "2026-01-02T03:00:00Z", "2026-01-02T04:00:00Z"


def runs_of(*points):
    """Table of runs of these scales, each twice; the second began at `STUDY_UTC`."""
    names = ("benchmark", "variant", "engine", "scale")
    rows = [
        {**{name: point.row[name] for name in names}, "machine": "testbox", "started_utc": began}
        for point in points
        for began in ("2026-01-02T02:00:00Z", STUDY_UTC)
    ]
    return pd.DataFrame(rows)


def trained(ratio=1.0, ranks=1, outcome="converged", started_utc=LATER_UTC, batch=8, **plan):
    """Record of a training of benchmark ``one`` whose step takes so many times as long as the study's."""
    point = {"global_batch": batch}
    made = make_record(outcome, benchmark="one", ranks_per_node=ranks, settings_of_point=point, **plan)
    report = made.training
    if report:
        report = report.model_copy(update={"step_time_median_s": ratio * POINTS[ranks - 1].step_s})
    return made.model_copy(update={"training": report, "started_utc": started_utc})


def speed_of(*records, folder):
    write_records(list(records), folder)
    return read_host_speed([folder], POINTS, runs_of(*POINTS))


def test_the_speed_is_the_geometric_mean_over_scales_of_the_same_settings(tmp_path):
    found = speed_of(trained(1.1), trained(1.3, ranks=2), trained(2.0, batch=16, variant="wide"), folder=tmp_path)
    assert [one.ratio for one in found.trainings] == pytest.approx([1.1, 1.3])
    assert found.ratio == pytest.approx(math.sqrt(1.1 * 1.3))
    assert (found.found, len(found.trainings)) == (3, 2)
    assert {one.source for one in found.trainings} <= {str(file) for file in tmp_path.rglob("record.json")}
    assert host_speed.AT_SPEED.find_in(found.words)["ratio"] == "1.2"


def test_without_trainings_it_is_the_studys():
    assert (HostSpeed().ratio, HostSpeed().variance.value, HostSpeed().words) == (1.0, 0.0, "")


def test_a_record_counts_once_and_its_copies_and_what_was_put_aside_do_not(tmp_path):
    record = trained(1.2)
    folder = tmp_path / record.run_id
    for place in (tmp_path, folder / "raw", folder / "attempts", tmp_path / "discarded"):
        write_records([record], place)
    found = read_host_speed([tmp_path, folder, folder / "record.json"], POINTS, runs_of(*POINTS))
    assert (found.found, found.ratio) == (1, pytest.approx(1.2))
    assert found.variance.value == 0
    assert host_speed.AT_ONE.find_in(found.words)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (trained(outcome="failed"), host_speed.UNTIMED),
        (trained(kind="profiled", profile="timeline", max_steps=8), host_speed.UNTIMED),
        (trained(batch=16), host_speed.OTHER_SCALE),
        (trained(machine=make_machine(name="elsewhere")), host_speed.OTHER_MACHINE),
        (trained(started_utc=STUDY_UTC), host_speed.EARLIER),
    ],
)
def test_what_does_not_tell_the_speed_is_refused_with_its_reason(tmp_path, record, reason):
    with pytest.raises(ConfigError) as refused:
        speed_of(record, folder=tmp_path)
    assert refused.value.code == host_speed.NONE_FITS.code
    assert refused.value.facts["reasons"] == reason(n=1)


def test_a_place_without_records_is_refused(tmp_path):
    with pytest.raises(ConfigError) as refused:
        read_host_speed([tmp_path / "none"], POINTS, runs_of(*POINTS))
    assert (refused.value.code, refused.value.facts["found"]) == (host_speed.NONE_FITS.code, 0)


def test_between_two_trainings_the_speed_is_on_the_line_of_logarithms():
    host = HostSpeed((Again(1.0, 1.0, 10.0), Again(4.0, 1.0, 20.0)))
    assert host.at_times(np.array([0.0, 10.0, 15.0, 20.0, 99.0])) == pytest.approx([1, 1, 2, 4, 4])


def test_the_spread_of_the_ratios_widens_the_interval():
    errors = ([1.1, 0.9, 1.05], [1.0, 1.0, 1.0])
    wide, near = (HostSpeed(tuple(Again(one, 1.0, 0.0) for one in ratios)) for ratios in ((1.1, 1.2, 1.6), (1.1, 1.1)))
    plain, same, wider = (
        centred_interval(*errors, "a test", 0.9, more) for more in (None, near.variance, wide.variance)
    )
    assert (same.low_ratio, same.high_ratio) == pytest.approx((plain.low_ratio, plain.high_ratio))
    assert wider.high_ratio > 1.2 * plain.high_ratio
    assert wider.basis.code != plain.basis.code
    # Without errors of predictions, it is the interval of one more ratio around the mean of the others.
    alone = centred_interval([1.0] * 3, [1.0] * 3, "a test", 0.9, wide.variance)
    deviation = np.log([1.1, 1.2, 1.6]).std(ddof=1) * math.sqrt(1 + 1 / 3)
    assert math.log(alone.high_ratio) == pytest.approx(stats.t.ppf(0.95, 2) * deviation)
