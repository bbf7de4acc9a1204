"""The commands on scales and replays: tables, JSON, and bad questions."""

import json
import math

import pandas as pd
import pytest
from unit import refusals
from unit.predict.scales.made_scales import groups, links, make_measured, make_point, step_s
from unit.predict.steps.made_blocks import make_report
from unit.profiles.profile_folders import STEPS_S, make_profile
from unit.profiles.timeline_text import timeline_text
from unit.record_factory import make_record, write_records

from hpcai.cli import predict_replay, predict_scale
from hpcai.cli.main import call
from hpcai.cli.options import NOT_ABOVE_ZERO
from hpcai.core.errors import ConfigError
from hpcai.core.table_files import read_parquet, write_parquet
from hpcai.predict.scales import host_speed, measured, trained
from hpcai.predict.scales.exchange import CALLS, NO_CALLS, NO_SIZES
from hpcai.predict.scales.held_out import OTHERS, QUESTIONS
from hpcai.predict.steps.report import NO_BLOCKS
from hpcai.records.files import write_sealed


@pytest.fixture
def results(tmp_path):
    made = make_measured()
    (tmp_path / "tables").mkdir()
    (tmp_path / "predict/here").mkdir(parents=True)
    scales = pd.DataFrame([dict(point.row) for point in made.points])
    runs = scales[["benchmark", "variant", "engine", "scale"]].assign(
        machine="testbox", started_utc="2026-02-01T00:00:00Z"
    )
    for name, table in {"scales": scales, "links": links(), "contention": groups(), "runs": runs}.items():
        write_parquet(table, tmp_path / f"tables/{name}.parquet")
    write_sealed(make_report(*made.steps), tmp_path / "predict/here/step_blocks.json")
    return tmp_path


def write_scales(results, *points):
    write_parquet(pd.DataFrame([dict(point.row) for point in points]), results / "tables/scales.parquet")


def test_every_scale_is_held_out(results, capsys):
    assert call(["predict", "scale", str(results), "--figure", str(results / "cases.svg")]) == 0
    printed = capsys.readouterr().out
    assert "6 of 6 predicted" in printed
    assert printed.splitlines()[2] == QUESTIONS[OTHERS]
    cells = [line.split() for line in printed.splitlines()]
    errors = [words[-2] for words in cells if words and words[-1] in {"yes", "no"}]
    assert errors
    assert all(error[0] in "+-" and error.endswith("%") for error in errors)
    assert (results / "cases.svg").read_text().startswith("<?xml")


def test_an_answer_stands_beside_its_errors(results, capsys):
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--output", "json"]
    assert call(question) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["answer"]["method"] == "modelled"
    assert found["answer"]["measured_s"] > 0
    assert found["answer"]["question"] == "more ranks"
    assert found["errors"]
    assert len(found["held_out"]) == 18


def test_the_answer_starts_from_the_usual_scale_and_its_engine_alone(results, capsys):
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--output", "json"]
    assert call(question) == 0
    usual = json.loads(capsys.readouterr().out)["answer"]
    compressed = make_point("one", 2, 8, variant="compressed", compression="fp16")
    other = make_point("one", 1, 8, engine="jax", step_time_median_s=1.5 * step_s(1, 8))
    scales = pd.DataFrame([dict(point.row) for point in (compressed, *make_measured().points, other)])
    write_parquet(scales, results / "tables/scales.parquet")
    assert call(question) == 0
    found = json.loads(capsys.readouterr().out)["answer"]
    assert (found["step_s"], found["start"]) == (usual["step_s"], usual["start"])


@pytest.mark.parametrize(
    "odd",
    [
        {"accumulation": 2}, {"gradient_groups": 4}, {"fusion_bytes": 1000.0}, {"cycle_time_s": 5e-3},
        {"spatial_parts": 2},
    ],
)  # fmt: skip
def test_what_is_not_asked_for_is_as_usual_whatever_variant_comes_first(results, capsys, odd):
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2"]
    usual = [make_point("one", ranks, 8, gradient_groups=1) for ranks in (1, 2)]
    write_scales(results, make_point("one", 2, 8, variant="a", **{"gradient_groups": 1, **odd}), *usual)
    assert call([*question, "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["answer"]
    assert (found["accumulation"], found["messages"], found["measured_s"]) == (1, 1, step_s(2, 8))
    assert call(question) == 0
    title = predict_scale.ANSWER.find_in(capsys.readouterr().out)
    assert (title["accumulation"], title["messages"]) == ("1", "1")


def test_an_answer_says_how_it_accumulates_and_how_many_messages_travel(results, capsys):
    question = ["predict", "scale", str(results), "--benchmark", "one", "--accumulation", "2", "--groups", "4"]
    for ranks, messages in (("1", "0"), ("2", "4")):
        assert call([*question, "--ranks", ranks, "--batch", str(8 * int(ranks))]) == 0
        title = predict_scale.ANSWER.find_in(capsys.readouterr().out)
        assert (title["accumulation"], title["messages"]) == ("2", messages)


def test_trainings_measured_besides_give_the_interval(results, capsys):
    header = "benchmark,precision,ranks,global_batch,accumulation,gradient_groups,fusion_bytes,cycle_time_s,measured_s"
    rows = [f"one,fp32,2,{batch},1,1,,,{2 * step_s(2, batch)}" for batch in (10, 12, 14)]
    file = results / "cases.csv"
    file.write_text("\n".join([header, *rows]))
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--output", "json"]
    width = []
    for more in ([], ["--cases", str(file)]):
        assert call([*question, *more]) == 0
        found = json.loads(capsys.readouterr().out)["answer"]
        width.append(found["high_s"] / found["low_s"])
    assert width[1] > 4 > width[0]


def test_an_answer_is_at_the_speed_that_the_host_has_now(results, capsys):
    points = [point for point in make_measured().points if point.benchmark == "one"]
    for point in points:
        record = make_record(
            benchmark="one", ranks_per_node=point.setting.ranks, settings_of_point={"global_batch": 8},
            record={"started_utc": "2026-03-01T00:00:00Z"},
        )  # fmt: skip
        ratio = 1.1 if point.setting.ranks == 1 else 1.3
        report = record.training.model_copy(update={"step_time_median_s": ratio * point.step_s})
        write_records([record.model_copy(update={"training": report})], results / "again")
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--output", "json"]
    found = []
    for more in ([], ["--host-speed", str(results / "again")]):
        assert call([*question, *more]) == 0
        found.append(json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["answer"])
    study, now = found
    assert (study["host_ratio"], study["host"]) == (None, [])
    assert now["host_ratio"] == pytest.approx(math.sqrt(1.1 * 1.3))
    assert [one["ratio"] for one in now["host"]] == pytest.approx([1.1, 1.3])
    assert all((results / one["source"]).is_file() for one in now["host"])
    for name in ("step_s", "compute_s", "exchange_s", "exposed_s"):
        assert now[name] == pytest.approx(now["host_ratio"] * study[name])
    assert now["contention_ratio"] == study["contention_ratio"]
    assert now["high_s"] / now["low_s"] > study["high_s"] / study["low_s"]
    assert call([*question[:-2], "--host-speed", str(results / "again")]) == 0
    assert host_speed.AT_SPEED.find_in(capsys.readouterr().out)["n"] == "2"


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (["--ranks", "2"], predict_scale.NEEDS_BENCHMARK.code),
        (["--benchmark", "none"], predict_scale.NOT_MEASURED.code),
        (["--benchmark", "one", "--groups", "2", "--fusion", "8"], predict_scale.GROUPS_OR_FUSION.code),
        (["--benchmark", "one", "--ranks", "3"], "step_model.uneven_batch"),
        (["--cases", "no.csv"], predict_scale.NEEDS_BENCHMARK.code),
        (["--benchmark", "one", "--cases", "no.csv"], trained.UNREADABLE.code),
        (["--host-speed", "again"], predict_scale.NEEDS_BENCHMARK.code),
        (["--benchmark", "one", "--host-speed", "none"], host_speed.NONE_FITS.code),
        (["--machine", "elsewhere"], NO_BLOCKS.code),
        *((["--benchmark", "one", "--cycle-ms", text], NOT_ABOVE_ZERO.code) for text in ("-50", "0", "inf", "nan")),
    ],
)
def test_bad_questions_get_one_sentence(results, question, code):
    with pytest.raises(ConfigError) as refused:
        call(["predict", "scale", str(results), *question])
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("asked", "messages"), [(["--fusion", "4"], 4), (["--fusion", "1999"], 4), (["--groups", "64"], 4)]
)
def test_no_more_messages_travel_than_there_are_gradients(results, capsys, asked, messages):
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", *asked]
    assert call([*question, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["messages"] == messages


def test_blocks_of_another_version_tell_of_one_message_alone(results, capsys):
    steps = [one.model_copy(update={"gradient_sizes": ()}) for one in make_measured().steps]
    file = results / "predict/here/step_blocks.json"
    file.unlink()
    write_sealed(make_report(*steps), file)
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2"]
    for asked in ([], ["--fusion", "4000"]):
        assert call([*question, *asked]) == 0
        assert predict_scale.ANSWER.find_in(capsys.readouterr().out)["messages"] == "1"
    for asked in (["--fusion", "3999"], ["--groups", "2"]):
        with refusals.refused(ConfigError, NO_SIZES):
            call([*question, *asked])


def test_ranks_that_were_not_measured_are_told_with_their_nodes(results):
    facts = {"ranks": 4, "nodes": 2, "known": "of 2 ranks of one node"}
    with refusals.refused(ConfigError, NO_CALLS, **facts):
        call(["predict", "scale", str(results), "--benchmark", "one", "--ranks", "4", "--batch", "16"])


@pytest.mark.parametrize("asked", [["--cycle-ms", "5"], ["--fusion", "2000"]])
def test_other_engines_have_no_cycle_and_no_threshold(results, asked):
    write_scales(results, *(make_point("one", ranks, 8, engine="jax") for ranks in (1, 2)))
    with refusals.refused(ConfigError, predict_scale.HOROVOD_ALONE, option=asked[0], engine="jax"):
        call(["predict", "scale", str(results), "--benchmark", "one", *asked])


def test_a_scale_of_another_cycle_is_not_the_measured_one(results, capsys):
    slow = make_point("one", 2, 8, variant="slow_cycle", cycle_time_s=6e-3, step_time_median_s=1.0 + step_s(2, 8))
    write_scales(results, *make_measured().points, slow)
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--output", "json"]
    measured_s = []
    for more in ([], ["--cycle-ms", "6"], ["--cycle-ms", "7"]):
        assert call([*question, *more]) == 0
        measured_s.append(json.loads(capsys.readouterr().out)["answer"]["measured_s"])
    assert measured_s == [step_s(2, 8), slow.step_s, None]


def test_groups_and_thresholds_take_each_others_place(results, capsys):
    """In a study, a row has one of the two."""
    found = []
    for base in ({"fusion_bytes": 1000.0}, {"gradient_groups": 4}, {}):
        write_scales(results, *(make_point("one", ranks, 8, **base) for ranks in (1, 2)))
        for asked in (["--groups", "2"], ["--fusion", "2000"]):
            question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", *asked]
            assert call([*question, "--output", "json"]) == 0
            found.append(json.loads(capsys.readouterr().out)["answer"]["basis"][-1].split(";")[0])
    assert CALLS.find_in(found[0])["messages"] == "2"
    assert len(set(found)) == 1
    # What is asked is then the measured scale with a threshold, which has no groups.
    write_scales(
        results,
        make_point("one", 1, 8, gradient_groups=4),
        make_point("one", 2, 8, gradient_groups=1, fusion_bytes=2000.0),
    )
    question = ["predict", "scale", str(results), "--benchmark", "one", "--ranks", "2", "--fusion", "2000"]
    assert call([*question, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["measured_s"] == step_s(2, 8)


@pytest.mark.parametrize(
    ("table", "lost"), [(table, name) for table, names in measured.NEEDED.items() for name in names]
)
def test_a_table_of_another_version_is_one_sentence(results, table, lost):
    file = results / f"tables/{table}.parquet"
    write_parquet(read_parquet(file).drop(columns=lost), file)
    with refusals.refused(ConfigError, measured.OTHER_VERSION, missing=lost):
        call(["predict", "scale", str(results), "--benchmark", "one", "--host-speed", str(results)])


def test_no_other_columns_are_needed(results):
    for table, names in measured.NEEDED.items():
        file = results / f"tables/{table}.parquet"
        write_parquet(read_parquet(file)[list(names)], file)
    assert call(["predict", "scale", str(results)]) == 0


def test_a_study_without_timed_steps_says_once_how_to_time_them(results):
    (results / "predict/here/step_blocks.json").unlink()
    with pytest.raises(ConfigError) as refused:
        call(["predict", "scale", str(results)])
    assert refused.value.code == NO_BLOCKS.code


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(ConfigError) as refused:
        call(["predict", "scale", str(tmp_path)])
    assert refused.value.code == measured.NO_TABLES.code


def test_replays_of_all_timelines(tmp_path, capsys):
    folder = tmp_path / "profiles/timeline/cosmoflow_tiny/fp32/n1x2/r1"
    text = timeline_text(1000 + STEPS_S[0] - 0.25)
    make_profile(folder, "timeline", {"timeline.json": text}, ranks_per_node=2)
    assert call(["predict", "replay", str(tmp_path)]) == 0
    assert "twice the bandwidth" in capsys.readouterr().out
    assert call(["predict", "replay", str(tmp_path), "--bandwidth", "2", "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["replays"]
    assert row["what_if_s"] == {"what if": None}  # no short message was measured
    assert call(["predict", "replay", str(tmp_path), "--slow-rank", "2", "--fusion", "65536"]) == 0
    said = capsys.readouterr().out
    assert "messages of 65536 B" in " ".join(said.split())
    assert "what if what if" not in " ".join(said.split())
    assert call(["predict", "replay", str(tmp_path), "--slow-rank", "2", "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["replays"]
    assert row["rebuilt_s"] == pytest.approx(0.5)
    # Of 40 ms of negotiation one cycle is agreement: the other rank computes 39 ms longer.
    assert math.isclose(row["what_if_s"]["what if"], 0.5 + 0.139 + 0.348)
    assert row["timed_s"] is None
    unknown = ["predict", "replay", str(tmp_path), "--fusion", "1024"]  # no transfers were measured
    assert call(unknown) == 0
    assert predict_replay.NO_ANSWER() in capsys.readouterr().out
    assert call([*unknown, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["replays"][0]["what_if_s"] == {"what if": None}


def test_a_replay_knows_the_cycle_of_the_profiled_run(tmp_path, capsys):
    folder = tmp_path / "profiles/timeline/cosmoflow_tiny/fp32/n1x2/r1"
    text = timeline_text(1000 + STEPS_S[0] - 0.25)
    make_profile(
        folder, "timeline", {"timeline.json": text}, ranks_per_node=2, settings_of_point={"cycle_time_s": 5e-3}
    )
    step_s = []
    for cycle_ms in ("5", "9"):
        assert call(["predict", "replay", str(tmp_path), "--cycle-ms", cycle_ms, "--output", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["replays"]
        step_s.append(row["what_if_s"]["what if"])
    assert step_s[0] == row["rebuilt_s"]
    assert step_s[1] == pytest.approx(row["rebuilt_s"] + 2e-3)


def test_transfers_of_the_profiled_scope_alone_are_replayed(tmp_path, capsys):
    """Those between nodes tell nothing of messages that travelled inside of one."""
    folder = tmp_path / "profiles/timeline/cosmoflow_tiny/fp32/n1x2/r1"
    make_profile(folder, "timeline", {"timeline.json": timeline_text(1000 + STEPS_S[0] - 0.25)}, ranks_per_node=2)
    (tmp_path / "tables").mkdir()
    inside = links()
    answers = []
    for scopes in (["node"], ["node", "network"], ["network"]):
        slow = {"node": 1.0, "network": 50.0}
        rows = [inside.assign(scope=scope, time_s=slow[scope] * inside["time_s"] * inside["bytes"]) for scope in scopes]
        write_parquet(pd.concat(rows), tmp_path / "tables/links.parquet")
        assert call(["predict", "replay", str(tmp_path), "--fusion", "1024", "--output", "json"]) == 0
        answers.append(json.loads(capsys.readouterr().out)["replays"][0]["what_if_s"]["what if"])
    assert answers[0] == answers[1]
    assert answers[2] is None


@pytest.mark.parametrize(
    ("question", "message"),
    [(["--slow-rank", "0"], NOT_ABOVE_ZERO), ([], predict_replay.NO_TIMELINES)],
)
def test_bad_replays_get_one_sentence(tmp_path, question, message):
    with pytest.raises(ConfigError) as refused:
        call(["predict", "replay", str(tmp_path), *question])
    assert refused.value.code == message.code
