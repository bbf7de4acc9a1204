"""Options of the command line: several values, omitted values, abbreviated names, and wrong words."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.main import get_command

from hpcai.cli.main import call, main
from hpcai.cli.options import Command, Texts, count, flag, seconds_or, takes
from hpcai.launchers.registry import LAUNCHERS

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All kinds of options."""

    folder: Annotated[str, typer.Argument()] = "here"
    given: Annotated[dict[str, str], Texts({"gpu-rate": "of one", "order": "of all"})]
    like: Annotated[list[str] | None, typer.Option(metavar="A...")] = None
    name: Annotated[list[str] | None, typer.Option(metavar="A")] = None
    wait: Annotated[float | None, typer.Option(metavar="[S]", parser=seconds_or(9.0))] = None
    jobs: Annotated[int | None, typer.Option(parser=count)] = None
    check_files: Annotated[bool, flag("--check-files", "all")] = False


@app.command(cls=Command)
@takes(Asked)
def ask(asked: Asked) -> Asked:
    """Return what was asked."""
    return asked


def asked(*words: str) -> Asked:
    found = get_command(app).main(args=list(words), standalone_mode=False)
    assert isinstance(found, Asked)
    return found


def test_nothing_is_asked():
    assert asked() == Asked(given={})


def test_several_values_follow_a_name_and_end_at_the_next_one():
    assert asked("x", "--like", "a", "b", "--jobs", "3") == Asked(folder="x", given={}, like=["a", "b"], jobs=3)
    assert asked("--like", "a", "--like=b", "--like", "c").like == ["a", "b", "c"]
    assert asked("--like", "a", "--", "x") == Asked(folder="x", given={}, like=["a"])


def test_a_repeated_option_takes_one_value_each_time():
    assert asked("--name", "a", "x", "--name", "b") == Asked(folder="x", given={}, name=["a", "b"])


def test_a_value_may_be_left_out():
    assert asked("--wait").wait == 9.0
    assert asked("--wait", "--check-files") == Asked(given={}, wait=9.0, check_files=True)
    assert asked("--wait", "2", "x") == Asked(folder="x", given={}, wait=2.0)
    assert asked("--wait=3").wait == 3.0


def test_the_beginning_of_a_name_is_enough_where_one_begins_so():
    assert asked("--check").check_files
    assert asked("--gpu", "1").given == {"gpu-rate": "1"}
    with pytest.raises(typer.TyperException, match="--nowhere"):
        asked("--nowhere")


def test_given_options_are_gathered_by_their_names():
    assert asked("--gpu-rate", "-1 GB/s", "--order=5").given == {"gpu-rate": "-1 GB/s", "order": "5"}


@pytest.mark.parametrize("words", [("--jobs",), ("--jobs", "--check-files"), ("--like", "--jobs", "2"), ("--name",)])
def test_an_option_is_no_value(words):
    with pytest.raises(typer.TyperException, match="expected a value"):
        asked(*words)


def test_a_negative_number_is_a_value():
    with pytest.raises(typer.TyperException, match="found '-3', expected a whole number"):
        asked("--jobs", "-3")


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["check", "--nonsense"], ["discard", "x"], ["mlperf"], ["predict", "oracle"]]
)
def test_a_wrong_command_line_has_status_1_and_says_the_usage(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hpcai", *words])
    assert main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Usage: hpcai")
    assert said.err.splitlines()[-1].startswith("error: ")


def test_bad_input_of_a_predictor_has_status_1(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hpcai", "predict", "hpl", "--order", "many"])
    assert main() == 1
    assert capsys.readouterr().err == "error: --order 'many' is no number\n"


def test_the_version_is_said(capsys):
    assert call(["--version"]) == 0
    assert capsys.readouterr().out.startswith("HPC-AI Bench ")


def test_words_of_the_workflow_are_not_read(monkeypatch):
    seen: list[list[str]] = []
    monkeypatch.setattr("hpcai.campaign.run_command.run", lambda words: seen.append(words) or 7)
    for words in (["-n", "--help", "--", "x", "--conf"], ["--version"], []):
        assert call(["run", *words]) == 7
        assert seen[-1] == words


@pytest.mark.parametrize("command", ["measure", "capture", "measure-weak"])
def test_help_names_every_launcher(command, capsys):
    assert call([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{name}: " in said for name in LAUNCHERS)


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from hpcai.cli.main import call; call(['--help']);"
        "print(sorted({'numpy', 'pandas', 'pydantic', 'rich', 'yaml', 'tensorflow'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hpcai est", "estimate"),
        ("hpcai doctor --check", "--check-files"),
        ("hpcai predict tr", "training"),
        ("hpcai predict hpl --inverse ", "host-link"),
        ("hpcai estimate --json x --li", "--like"),
    ],
)
def test_a_shell_can_complete_commands_options_and_choices(monkeypatch, capsys, shell, line, expected):
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_ARGS": line}
    environment = {"_HPCAI_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **words}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["hpcai"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert expected in said.out
    assert said.err == ""


def test_an_option_that_waits_for_its_value_is_no_error_of_completion():
    environment = {"_HPCAI_COMPLETE": "complete_bash", "COMP_WORDS": "hpcai estimate --json ", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-m", "hpcai"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
