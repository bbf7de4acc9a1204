"""What `hpcai run` makes of Snakemake's arguments."""

from pathlib import Path

import pytest

from hpcai.campaign.run_options import calls_of, only_answers, report_words, working_folder


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


def test_the_report_of_the_default_study():
    assert report_words([]) == ["report", "--config", "measure=false"]
