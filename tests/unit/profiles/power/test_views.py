"""Power of a profiled run: over the training steps only, by each meter."""

import math

import pytest
from unit.profiles.profile_folders import make_profile

from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.energy import PARTLY_COVERED
from hpcai.parsers.nvml_samples import MONOTONIC, WALL
from hpcai.profiles.power.views import ONE_NODE, OTHER_NODES, power_views


def rapl(power_w=20.0):
    header = "monotonic_s,domain,energy_uj,max_energy_range_uj\n"
    rows = (f"{90 + i * 0.5},intel-rapl:0,{int(i * 0.5 * power_w * 1e6)},262143328850\n" for i in range(40))
    return header + "".join(rows)


def nvml(power_mw=250_000):
    rows = (f"{90 + i * 0.5},{gpu},{power_mw}\n" for i in range(40) for gpu in range(2))
    return "monotonic_s,index,power_mw\n" + "".join(rows)


def test_energy_is_that_of_the_steps(tmp_path):
    profile = make_profile(tmp_path / "p", "power", {"power_rapl.csv": rapl(), "power_nvml.csv": nvml()})
    view = power_views(profile)["power"].set_index("instrument")
    # Steps run from 100.0 to 102.0 s.
    assert view.loc["rapl", "energy_j"] == pytest.approx(40.0)
    assert view.loc["rapl", "mean_power_w"] == pytest.approx(20.0)
    assert view.loc["nvml", "energy_j"] == pytest.approx(2 * 250 * 2.0)
    assert view.loc["nvml", "duration_s"] == pytest.approx(2.0)
    assert view["source"].str.endswith(".csv").all()


def test_a_part_of_the_nodes_is_said(tmp_path):
    raw = {"power_rapl.csv": rapl(), "power_slurm.csv": nvml()}
    view = power_views(make_profile(tmp_path / "p", "power", raw, nodes=2))["power"].set_index("instrument")
    assert ONE_NODE(nodes=2) in view.loc["rapl", "reasons"]
    assert "only one" not in view.loc["slurm", "reasons"]
    assert view.loc["slurm", "mean_power_w"] == pytest.approx(500.0)


def test_a_meter_without_a_sample_leaves_the_others_their_power(tmp_path):
    raw = {"power_rapl.csv": rapl(), "power_nvml.csv": "monotonic_s,index,power_mw\n"}
    view = power_views(make_profile(tmp_path / "p", "power", raw))["power"].set_index("instrument")
    assert view.loc["rapl", "energy_j"] == pytest.approx(40.0)
    assert view.loc["nvml", ["energy_j", "mean_power_w"]].isna().all()
    assert view.loc["nvml", "coverage_ratio"] == 0
    assert view.loc["nvml", "reasons"]
    alone = make_profile(tmp_path / "alone", "power", {"power_nvml.csv": "monotonic_s,index,power_mw\n"})
    with pytest.raises(ParseError):
        power_views(alone)


def test_the_power_of_other_nodes_than_those_of_the_run_is_none(tmp_path):
    """A job has more nodes than a run of it: their watts are not the run's."""
    for nodes in (1, 3):
        profile = make_profile(tmp_path / str(nodes), "power", {"power_slurm.csv": nvml()}, nodes=nodes)
        (row,) = power_views(profile)["power"].to_dict("records")
        assert math.isnan(row["mean_power_w"])
        assert math.isnan(row["energy_j"])
        assert OTHER_NODES(found=2, nodes=nodes) in row["reasons"]


def test_a_device_that_answered_for_a_part_of_the_time_keeps_its_power(tmp_path):
    lines = nvml().splitlines(keepends=True)
    # Steps run from 100.0 to 102.0 s; the second device falls silent at 101.0 s.
    silent = [line for line in lines[1:] if line.split(",")[1] == "0" or float(line.split(",")[0]) <= 101.0]
    profile = make_profile(tmp_path / "p", "power", {"power_nvml.csv": "".join([lines[0], *silent])})
    (row,) = power_views(profile)["power"].to_dict("records")
    assert row["mean_power_w"] == pytest.approx(500.0)
    assert row["energy_j"] == pytest.approx(250 * 2.0 + 250 * 1.0)
    assert PARTLY_COVERED.find_in(row["reasons"]) is not None


def test_power_of_other_nodes_than_the_samplers_is_cut_by_the_wall_clock(tmp_path):
    """Rank 0's wall clock is 1000 s ahead of its monotonic one; the sampler's node has another monotonic clock."""
    header, *rows = nvml().splitlines()
    moved = [f"{float(time_s) + 1000},{rest}" for time_s, _, rest in (row.partition(",") for row in rows)]
    raw = {"power_slurm.csv": "\n".join([header.replace(MONOTONIC, WALL), *moved, ""])}
    (row,) = power_views(make_profile(tmp_path / "p", "power", raw, nodes=2))["power"].to_dict("records")
    assert row["mean_power_w"] == pytest.approx(500.0)
    assert row["duration_s"] == pytest.approx(2.0)
