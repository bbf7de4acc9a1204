"""A captured profile: its configuration, its steps, and unchanged raw files."""

import pytest
from unit.profiles.profile_folders import STEPS_S, make_profile

from hpcai.config.plan_file import write_plan
from hpcai.core.errors import ParseError, RecordError
from hpcai.core.files import file_sha256
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import VIEWS, as_view, join_views
from hpcai.records.files import FILE_CHANGED, write_record, write_sealed
from hpcai.records.run import Artefact


def test_a_changed_raw_file_is_never_read(tmp_path):
    profile = make_profile(tmp_path / "p", "power", {"power_rapl.csv": "1,2\n"})
    path = tmp_path / "p/raw/power_rapl.csv"
    assert profile.file("power_rapl.csv") == path
    path.write_text("1,3\n")  # one flipped bit
    with pytest.raises(ParseError, match=FILE_CHANGED.pattern):
        profile.files(".csv")
    path.unlink()
    with pytest.raises(ParseError, match="found SHA-256 no file"):
        profile.file("power_rapl.csv")
    with pytest.raises(ParseError, match=r"left no timeline\.json"):
        profile.file("timeline.json")


def test_steps_are_put_on_the_wall_clock(tmp_path):
    profile = make_profile(tmp_path / "p", "timeline", {"timeline.json": "[]"})
    steps = profile.steps()
    assert steps["start_s"].to_list() == [1000 + start for start in STEPS_S]
    assert steps["duration_s"].to_list() == [0.5] * len(STEPS_S)
    assert profile.training_windows_s() == [(STEPS_S[0], STEPS_S[-1] + 0.5)]
    assert profile.training_windows_s(wall_clock=True) == [(1000 + STEPS_S[0], 1000 + STEPS_S[-1] + 0.5)]


def test_evaluations_between_epochs_are_no_training(tmp_path):
    profile = make_profile(tmp_path / "p", "power", {"power_rapl.csv": ""})
    rows = "1,1,10.0,0.5,1\n1,2,10.5,0.5,1\n1,3,11.0,0.5,1\n2,1,20.0,0.5,1\n2,2,20.5,0.5,1\n"
    (tmp_path / "p/raw/steps.csv").write_text("epoch,step,start_s,step_time_s,train_loss\n" + rows)
    assert profile.training_windows_s() == [(10.0, 11.5), (20.0, 21.0)]
    # A profiler's window opens after the warm-up steps and closes before the first evaluation.
    assert profile.profiled_steps()["start_s"].to_list() == [1011.0]


def test_views_have_their_columns_whatever_the_rows():
    assert list(as_view("power", []).columns) == list(VIEWS["power"])
    made = as_view("power", [{"instrument": "rapl", "energy_j": 1.0, "unknown": 2}])
    assert made["energy_j"].to_list() == [1.0]
    assert "unknown" not in made
    assert join_views("power", []).empty
    assert len(join_views("power", [made, as_view("power", []), made])) == 2


def test_a_capture_whose_digest_is_wrong_is_refused(tmp_path):
    path = tmp_path / "p/capture.json"
    write_sealed(make_profile(tmp_path / "p", "power", {"power_rapl.csv": "1,2\n"}).capture, path)
    assert Profile.at(path).capture.tool == "a tool"
    path.write_text(path.read_text().replace('"bytes": 4', '"bytes": 5'))
    with pytest.raises(RecordError, match=r"capture\.json"):
        Profile.at(path)


def test_a_changed_plan_changes_no_number_of_a_profile(tmp_path):
    profile = make_profile(tmp_path / "p", "power", {"power_rapl.csv": "1,2\n"})
    plan = profile.record.plan
    write_plan(plan.model_copy(update={"seed": plan.seed + 1}), tmp_path / "p/plan.json")
    assert Profile.at(tmp_path / "p/capture.json").plan.seed == plan.seed


def test_changed_steps_are_never_read(tmp_path):
    folder = tmp_path / "p"
    profile, steps = make_profile(folder, "timeline", {"timeline.json": "[]"}), folder / "raw/steps.csv"
    listed = Artefact(path="steps.csv", bytes=steps.stat().st_size, sha256=file_sha256(steps))
    write_record(profile.record.model_copy(update={"artefacts": (listed,)}), folder / "record.json")
    whole = Profile.at(folder / "capture.json").steps()
    assert len(whole) == len(STEPS_S)
    steps.write_text(steps.read_text().replace("0.5", "0.7", 1))
    with pytest.raises(ParseError, match=r"steps\.csv"):
        Profile.at(folder / "capture.json").steps()
