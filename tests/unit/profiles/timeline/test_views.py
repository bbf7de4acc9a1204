"""Timeline views: on the clock of the steps, and covering only the steps."""

import numpy as np
import pandas as pd
import pytest
from unit.profiles.profile_folders import STEPS_S, make_profile
from unit.profiles.timeline_text import FLOATS, TENSORS, timeline_text

from hpcai.core.errors import ParseError
from hpcai.parsers.horovod import blocks, stream
from hpcai.profiles.reading import read_profiles
from hpcai.profiles.timeline import views as timeline_views_module
from hpcai.profiles.timeline.views import timeline_views, traffic_of

# Steps begin at 1100 s since the epoch, so the timeline's first step must be there.
START_S = 1000 + STEPS_S[0] - 0.25


@pytest.fixture
def profile(tmp_path):
    return make_profile(tmp_path / "p", "timeline", {"timeline.json": timeline_text(START_S)}, ranks_per_node=2)


def test_one_row_says_how_gradients_travelled(profile):
    row = timeline_views(profile)["communication"].iloc[0]
    assert (row["steps"], row["batches"], row["operations"]) == (4, 4, 8)
    assert row["bytes_per_step"] == TENSORS * FLOATS * 4
    assert row["transfer_s"] == pytest.approx(4 * 0.010)
    assert row["negotiation_share_ratio"] == pytest.approx(40 / 52)
    assert row["exchange_per_step_s"] == pytest.approx(0.052)
    assert row["step_time_s"] == pytest.approx(0.5)
    assert row["communication_share_ratio"] == pytest.approx(0.052 / 0.5)
    assert row["algorithm_bandwidth_bytes_per_s"] == pytest.approx(TENSORS * FLOATS * 4 / 0.010)
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(row["algorithm_bandwidth_bytes_per_s"])
    assert row["slowest_rank_negotiations"] == 4  # too few for a verdict
    assert pd.isna(row["slowest_rank"])
    assert pd.isna(row["slowest_rank_last_ratio"])
    assert row["source"].endswith("raw/timeline.json")


def test_what_lies_outside_the_steps_does_not_count(tmp_path):
    text = timeline_text(START_S - 1.0)  # two of four steps precede the first training step
    profile = make_profile(tmp_path / "p", "timeline", {"timeline.json": text}, ranks_per_node=2)
    assert timeline_views(profile)["communication"]["batches"].to_list() == [2]
    traffic = traffic_of(profile, profile.steps())
    assert len(traffic.spans) == 2 * 2 * 5
    assert len(traffic.timeline.ready) == 2 * 2 * 2
    assert traffic.timeline.spans.complete_records == 2 * len(traffic.spans)


def test_pieces_say_what_the_whole_says(tmp_path, monkeypatch):
    text = timeline_text(START_S - 1.0, steps=40)
    profile = make_profile(tmp_path / "p", "timeline", {"timeline.json": text}, ranks_per_node=2)
    whole = timeline_views(profile)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(stream, "BATCH_EVENTS", 8)
    most = []
    near = timeline_views_module._near

    def watch(piece, low_s, high_s):
        kept = near(piece, low_s, high_s)
        most.append((len(piece.spans.table), len(kept.spans.table)))
        return kept

    monkeypatch.setattr(timeline_views_module, "_near", watch)
    for name, view in timeline_views(profile).items():
        pd.testing.assert_frame_equal(view, whole[name])
    read, kept = (np.array(counts) for counts in zip(*most, strict=True))
    assert len(read) > 20
    assert read.max() < 0.1 * read.sum()  # no piece is the whole file
    assert kept.sum() == 4 * 2 * 5  # only the steps are kept


def test_a_negotiation_that_began_before_the_first_step_counts(tmp_path):
    # The first step's negotiation begins 30 ms before it, and ends in it before its operation begins.
    profile = make_profile(
        tmp_path / "p", "timeline", {"timeline.json": timeline_text(START_S - 0.13)}, ranks_per_node=2
    )
    views = timeline_views(profile)
    spans = views["phases"].set_index("phase")["spans"]
    assert spans["NEGOTIATE_ALLREDUCE"] == spans["ALLREDUCE"] == 8
    row = views["communication"].iloc[0]
    assert row["negotiation_s"] == pytest.approx(3 * 0.040 + 0.010)
    assert row["slowest_rank_negotiations"] == 3


def test_lanes_show_one_step(profile):
    lanes = timeline_views(profile)["lanes"].set_index("lane")
    assert lanes.loc["negotiation", "start_s"] == pytest.approx(0.1)
    assert lanes.loc["transfer", "duration_s"] == pytest.approx(0.010)
    assert "computation" not in lanes.index


def test_a_timeline_without_its_begin_cannot_be_put_on_the_clock(tmp_path):
    text = timeline_text(START_S).replace('"start_time_since_epoch_in_micros"', '"started"')
    profile = make_profile(tmp_path / "p", "timeline", {"timeline.json": text}, ranks_per_node=2)
    with pytest.raises(ParseError, match="contains no start time"):
        timeline_views(profile)


def test_damage_costs_its_own_rows_alone(tmp_path):
    good = make_profile(tmp_path / "a", "timeline", {"timeline.json": timeline_text(START_S)}, ranks_per_node=2)
    bad = make_profile(tmp_path / "b", "timeline", {"timeline.json": "[\n"}, ranks_per_node=2)
    changed = make_profile(tmp_path / "c", "timeline", {"timeline.json": timeline_text(START_S)}, ranks_per_node=2)
    (tmp_path / "c/raw/timeline.json").write_text(timeline_text(START_S + 0.001))
    missing = make_profile(tmp_path / "d", "timeline", {}, ranks_per_node=2)
    views = read_profiles("timeline", [one.folder / "capture.json" for one in (good, bad, changed, missing)])
    assert len(views["communication"]) == 1
    captures = views["captures"]
    assert captures["status"].to_list() == ["measured", "not readable", "not readable", "not measured"]
    assert "as captured" in captures["reason"][2]
    assert captures["reason"][3] == "no a tool here"
    assert captures["coverage_ratio"].notna().to_list() == [True, False, False, False]
