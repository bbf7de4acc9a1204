"""Trainings that were measured besides a study."""

import pytest
from unit.predict.scales.made_scales import make_measured, make_point, step_s

from hpcai.core.errors import ConfigError
from hpcai.predict.scales import trained
from hpcai.predict.scales.held_out import OTHERS, interval_of
from hpcai.predict.scales.trained import predict_trained, read_trained

HEADER = (
    "benchmark,precision,ranks,global_batch,accumulation,gradient_groups,fusion_bytes,cycle_time_s,measured_s,steps\n"
)


@pytest.fixture
def write(tmp_path):
    def written(*rows):
        file = tmp_path / "cases.csv"
        file.write_text(HEADER + "".join(f"{row}\n" for row in rows))
        return file

    return written


def test_their_errors_give_an_interval(write):
    rows = [f"one,fp32,2,{batch},1,1,,,{step_s(2, batch) * 1.1},20" for batch in (10, 12, 14)]
    cases = predict_trained(make_measured(), read_trained(write(*rows)))
    assert [case.error_ratio for case in cases] == pytest.approx([1 / 1.1 - 1] * 3, rel=1e-6)
    found = interval_of(cases, OTHERS)
    assert (found.n, found.low_ratio < 1 / 1.1, found.high_ratio > 1.1) == (3, True, True)


def test_steps_are_taken_at_the_speed_of_the_study_where_the_hosts_is_told_otherwise(tmp_path):
    file = tmp_path / "cases.csv"
    rows = [f"one,fp32,2,{batch},1,1,,,{step_s(2, batch) * 1.2},20,{ratio}\n" for batch, ratio in ((10, 1.2), (12, ""))]
    file.write_text(HEADER.replace("steps", "steps,host_ratio") + "".join(rows))
    trainings = read_trained(file)
    as_measured, at_study_speed = (predict_trained(make_measured(), trainings, told) for told in (False, True))
    assert [case.error_ratio for case in as_measured] == pytest.approx([1 / 1.2 - 1] * 2)
    assert [case.error_ratio for case in at_study_speed] == pytest.approx([0, 1 / 1.2 - 1], abs=1e-9)


def test_blank_cells_are_the_usual_messages_and_cycle(write):
    usual, other = read_trained(write("one,fp32,2,8,1,1,,,1.0,20", "one,fp32,2,8,1,1,4096,0.005,1.0,20"))
    assert (usual.fusion_bytes, usual.cycle_time_s) == (None, None)
    assert (other.fusion_bytes, other.cycle_time_s) == (4096.0, 0.005)
    cases = predict_trained(make_measured(), [usual, other])
    assert cases[0].found.step_s < cases[1].found.step_s


def test_trainings_have_whole_samples_whatever_variant_comes_first(write):
    (row,) = read_trained(write(f"one,fp32,2,8,1,1,,,{step_s(2, 8)},20"))
    cut = make_point("one", 2, 8, variant="a", spatial_parts=2)
    (case,) = predict_trained(make_measured(cut, *make_measured().points), [row])
    assert case.target.setting.spatial_parts == 1
    assert case.error_ratio < 0.05


def test_what_the_study_says_nothing_of_is_left_out(write):
    rows = read_trained(write("one,fp32,2,8,1,1,,,1.0,20", "nobody,fp32,2,8,1,1,,,1.0,20", "one,bf16,2,8,1,1,,,1.0,20"))
    assert len(predict_trained(make_measured(), rows)) == 1
    with pytest.raises(ConfigError) as refused:
        predict_trained(make_measured(), rows[1:])
    assert refused.value.code == trained.OTHER_STUDY.code


def test_only_scales_of_one_engine_lead_to_a_training(write):
    other = make_point("one", 1, 8, engine="jax", step_time_median_s=1.5 * step_s(1, 8))
    (row,) = read_trained(write(f"one,fp32,2,10,1,1,,,{step_s(2, 10)},20"))
    (case,) = predict_trained(make_measured(*make_measured().points, other), [row])
    assert case.error_ratio == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("cell", ["0", "-1", "nan", "inf", "", "fast"])
def test_a_step_that_is_no_time_is_refused_with_its_row(write, cell):
    with pytest.raises(ConfigError) as refused:
        read_trained(write("one,fp32,2,8,1,1,,,1.0,20", f"one,fp32,2,8,1,1,,,{cell},20"))
    assert refused.value.code == trained.BAD_CELL.code
    assert refused.value.facts["column"] == "measured_s"
    assert str(refused.value.facts["place"]).endswith("row 2")


@pytest.mark.parametrize(
    "content", [None, b"", b"benchmark\n", b"\xff\xfe\x00"], ids=["no file", "empty", "no row", "no text"]
)
def test_what_is_no_table_is_refused(tmp_path, content):
    file = tmp_path / "cases.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_trained(file)
    assert refused.value.code == trained.UNREADABLE.code


def test_a_missing_column_is_named(tmp_path):
    file = tmp_path / "cases.csv"
    file.write_text("benchmark,precision\none,fp32\n")
    with pytest.raises(ConfigError) as refused:
        read_trained(file)
    assert (refused.value.code, refused.value.facts["column"]) == (trained.BAD_CELL.code, "ranks")
