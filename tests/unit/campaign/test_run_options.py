"""How `hpcai run` handles Snakemake's arguments."""

import os
from pathlib import Path

import pytest
from unit.refusals import refused

from hpcai.campaign import run_options
from hpcai.campaign.run_command import run
from hpcai.campaign.run_options import (
    FLAGS,
    NO_WORKFLOW,
    calls_of,
    only_answers,
    refuse_without_workflow,
    repeatable,
    report_words,
    study_files,
    without_horovod,
    working_folder,
)
from hpcai.core.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "expected"),
    {
        "nothing": ([], [[]]),
        "a target": (["report"], [["report"]]),
        "predict": (["predict", "-c", "2"], [["predict", "-c", "2"], ["-c", "2"]]),
        "regressors": (["regressors"], [["regressors"], []]),
        "a value": (["--until", "predict"], [["--until", "predict"]]),
    }.values(),
    ids=["nothing", "a target", "predict", "regressors", "a value"],
)
def test_calls(words, expected):
    assert calls_of(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["-n"], True), (["all", "--dry-run"], True), (["--unlock"], True), (["all", "-c2"], False), ([], False)],
    ids=["short", "long", "unlock", "all", "nothing"],
)
def test_questions(words, expected):
    assert only_answers(words) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("acceptance --profile slurm --forcerun measure_acceptance", "acceptance --profile slurm"),
        ("-R train collect_runs --cores 2", "--cores 2"),
        ("--until measure -k --omit-from report show_runs", "-k"),
        ("-Utrain -Oreport -c2", "-c2"),
        ("-kR train -p", "-k -p"),
        ("-kFp -tfc 2 -nc4", "-kp -c 2 -nc4"),
        ("--force --forceall --touch -f -F -t", ""),
        # The option before would take the targets.
        ("--config a=b -F report all", "report all --config a=b"),
        ("--configfile my.yaml --forcerun=train report", "report --configfile my.yaml"),
        ("-q -Rtrain report -k", "report -q -k"),
        ("--forcerun train -- --until", "-- --until"),
        ("all --force-use-threads -c -1 - --config title=-F", "all --force-use-threads -c -1 - --config title=-F"),
        ("", ""),
    ],
)
def test_going_on_repeats_nothing_that_was_meant_for_one_start(words, expected):
    assert repeatable(words.split()) == expected.split()
    assert repeatable(expected.split()) == expected.split()


@pytest.mark.parametrize(
    "word", ["-np", "-pn", "-npF", "-kn", "-nc4", "-Fl", "-pS", "-pD", "-kt", "-ph", "-pv", "-nj10"]
)
def test_flags_behind_one_hyphen_are_questions_as_each_alone(word):
    assert only_answers(["all", word]) is True


@pytest.mark.parametrize(
    "word", ["-c4", "-cn", "-j10", "-sSnakefile", "-dthen", "-kp", "-kdn", "-", "--", "then", "-qn"]
)
def test_values_behind_an_option_are_no_flags(word):
    assert only_answers(["all", word]) is False


def test_flags_are_those_of_snakemake():
    from snakemake.cli import get_argument_parser

    options = [(name, action) for action in get_argument_parser()._actions for name in action.option_strings]
    assert {name[1] for name, action in options if len(name) == 2 and action.nargs == 0} == FLAGS


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], "."), (["all", "-d", "x"], "x"), (["--directory=y", "all"], "y"), (["--dir", "z"], ".")],
    ids=["here", "short", "long", "abbreviated"],
)
def test_working_folder(words, expected):
    assert working_folder(words) == Path(expected)


def test_the_report_of_the_same_study_measures_nothing():
    words = ["measure", "-k", "--config", "config_dir=c", "measure=true", "--configfile", "a.yaml", "b.yaml", "-c", "2"]
    words += ["--workflow-profile", "p", "--forcerun", "train", "-d", "w"]
    study = ["--directory", "w", "--cores", "2", "--workflow-profile", "p", "--configfile", "a.yaml", "b.yaml"]
    assert report_words(words) == ["report", *study, "--config", "config_dir=c", "measure=false"]


def test_the_report_can_be_of_other_rounds():
    words = ["report", "--config", "rounds=['a.zip','b']", "measure=false", "title=rounds"]
    assert report_words(words, ["b"]) == ["report", "--config", "title=rounds", 'rounds=["b"]', "measure=false"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], []), (["-n", "--configfile", "a.yaml", "b.yaml"], ["a.yaml", "b.yaml"]), (["--configfile=c"], ["c"])],
)
def test_files_of_settings(words, expected):
    assert study_files(words) == expected


def test_an_option_without_its_value_is_one_sentence():
    with pytest.raises(ConfigError, match="--configfile"):
        study_files(["-n", "--configfile"])


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing", "template"])
def test_what_snakemake_would_wait_for_or_run_is_refused_before_it_starts(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(
        "hpcai.campaign.run_command.snakemake_program", lambda: pytest.fail("Snakemake was to be started")
    )
    path = tmp_path / "study.yaml"
    make = {
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
        "missing": lambda: None,
        "template": lambda: path.write_text("__use_yte__: true\nname: ?open('/nowhere', 'w')\n"),
    }
    make[kind]()
    for words in (["-n", "--configfile", str(path)], ["report", "--configfile", str(path)]):
        with pytest.raises(ConfigError, match=str(path)):
            run(words)


@pytest.mark.parametrize("words", [[], ["-n"], ["predict"], ["--directory", "x"]])
def test_a_folder_without_a_workflow_is_refused_before_anything_is_written(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    with refused(ConfigError, NO_WORKFLOW):
        run(words)
    assert list(tmp_path.iterdir()) == []
    for named in (["-s", "x"], ["--profile", "x"], ["--workflow-profile=x"]):
        refuse_without_workflow([*words, *named])
    (tmp_path / "Snakefile").touch()
    refuse_without_workflow(words)


def test_the_report_of_the_default_study():
    assert report_words([]) == ["report", "--config", "measure=false"]


@pytest.fixture
def wheels_alone(monkeypatch, tmp_path):
    """A folder to work in, and no Horovod."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_options, "find_spec", lambda module: None if module == "horovod" else module)
    (tmp_path / "config/machines").mkdir(parents=True)
    (tmp_path / "config/machines/box.yaml").write_text("name: box\n")
    (tmp_path / "config/study.yaml").write_text("name: mine\nmachine: box\n")
    return tmp_path / "config"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["--config", "engine=tensorflow"]),
        (["predict", "-c", "2"], ["predict", "-c", "2", "--config", "engine=tensorflow"]),
        (["--config", "seed=3", "-n"], ["--config", "engine=tensorflow", "seed=3", "-n"]),
        (["-C", "seed=3"], ["-C", "engine=tensorflow", "seed=3"]),
        (["--config=seed=3", "all"], ["--config", "engine=tensorflow", "seed=3", "all"]),
        (["-c2", "--", "all"], ["-c2", "--config", "engine=tensorflow", "--", "all"]),
        (["--config", "engine=horovod"], ["--config", "engine=horovod"]),
        (["--config", "measure=False"], ["--config", "measure=False"]),
    ],
)
def test_engine_where_horovod_is_not_installed(wheels_alone, words, expected):
    assert without_horovod(words) == expected


def test_all_is_as_asked_where_horovod_is_installed(wheels_alone, monkeypatch):
    monkeypatch.setattr(run_options, "find_spec", lambda module: module)
    assert without_horovod(["all"]) == ["all"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("study.yaml", "name: mine\nmachine: box\nengine: horovod\n"),
        ("machines/box.yaml", "name: box\nsoftware: {container: x.sif}\n"),
    ],
    ids=["the study names an engine", "ranks run in an image"],
)
def test_settings_that_leave_the_engine_as_it_is(wheels_alone, file, text):
    (wheels_alone / file).write_text(text)
    assert without_horovod(["all"]) == ["all"]
    assert without_horovod(["all", "--configfile", "config/study.yaml"]) == ["all", "--configfile", "config/study.yaml"]


def test_the_report_of_what_there_is_has_the_same_engine(wheels_alone):
    assert report_words(without_horovod([]))[-3:] == ["--config", "engine=tensorflow", "measure=false"]
