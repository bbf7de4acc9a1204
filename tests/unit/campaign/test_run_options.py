"""What `hpcai run` makes of Snakemake's arguments."""

import os
from pathlib import Path

import pytest

from hpcai.campaign.run_command import run
from hpcai.campaign.run_options import calls_of, only_answers, report_words, study_files, working_folder
from hpcai.core.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "expected"),
    {
        "nothing": ([], [[]]),
        "a target": (["report"], [["report"]]),
        "predict": (["predict", "-c", "2"], [["predict", "-c", "2"], ["-c", "2"]]),
        "a value": (["--until", "predict"], [["--until", "predict"]]),
    }.values(),
    ids=["nothing", "a target", "predict", "a value"],
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


def test_the_report_of_the_default_study():
    assert report_words([]) == ["report", "--config", "measure=false"]
