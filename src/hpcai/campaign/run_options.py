"""The Snakemake arguments that ``hpcai run`` interprets (study and folder); all others are passed on."""

import argparse
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from hpcai.config.load import read_settings
from hpcai.config.study import configuration_folder
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at

ANSWERS = {
    *["-n", "--dry-run", "--dryrun", "-h", "--help", "-v", "--version", "--dag", "--rulegraph", "--filegraph"],
    *["--d3dag", "--summary", "-S", "--detailed-summary", "-D", "--list-rules", "--list", "-l", "--lint"],
    *["--list-target-rules", "--lt", "--list-changes", "--lc", "--unlock", "--report", "--touch", "-t"],
    *["--containerize", "--cleanup-metadata", "--cm", "--archive", "--delete-all-output"],
}
"""Options with which Snakemake only answers: it starts no job, and its output is the result."""
FLAGS = frozenset("ntkfFlSDvpah")
"""Letters of Snakemake's options without a value, several of which can follow one hyphen, as in ``-np``."""
ONCE = frozenset({"--force", "--forceall", "--touch"})
ONCE_WITH_VALUES = frozenset({"--forcerun", "--until", "--omit-from"})
ONCE_LETTERS, ONCE_LETTERS_WITH_VALUES = frozenset("fFt"), frozenset("RUO")
"""Options meant for one start: repeated, ``--forcerun`` measures again what is there, ``--until`` gets no further."""

SNAKEFILES = tuple(map(Path, ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")))
"""Where Snakemake looks for the workflow."""
NO_WORKFLOW = Message(
    "run_options.no_workflow",
    "no Snakefile here; change to the checkout or to a folder that `hpcai init` wrote, or name one with --snakefile",
)
USUAL_STUDY = "config/study.yaml"
ENGINE_OF_WHEELS = "tensorflow"
"""Requires neither a compiler nor MPI."""


def only_answers(words: Sequence[str]) -> bool:
    """Whether Snakemake starts no job with these arguments."""
    short = {option for word in words for option in _options_in(word)}
    return bool(ANSWERS & {*words, *short})


def _options_in(word: str) -> list[str]:
    """Return the options behind one hyphen, up to the first that takes a value: the rest of the word is that value."""
    letters = word[1:] if word.startswith("-") and not word.startswith("--") else ""
    return [f"-{letter}" for letter in itertools.takewhile(FLAGS.__contains__, letters)]


def repeatable(words: Sequence[str]) -> list[str]:
    """Return the arguments with which a start goes on: without what was to be forced, touched or left out that once.

    Parameters
    ----------
    words
        Arguments of Snakemake, without its name. Abbreviated options are kept.
    """
    kept: list[str] = []
    targets: list[str] = []
    into: list[str] | None = kept
    for place, word in enumerate(words):
        if word == "--":
            kept += words[place:]
            break
        if word.startswith("-") and word != "-":
            lasting, has_values = _lasting(word)
            kept += lasting
            # At their old place, the option before them could take targets as its values.
            into = None if has_values else kept if lasting else targets
        elif into is not None:
            into.append(word)
    return [*targets, *kept]


def _lasting(word: str) -> tuple[list[str], bool]:
    """Return what remains of a word with options, and whether the next words are values of an option left out."""
    name, equals, _ = word.partition("=")
    if name in ONCE or name in ONCE_WITH_VALUES:
        return [], name in ONCE_WITH_VALUES and not equals
    if word.startswith("--"):
        return [word], False
    flags = "".join(itertools.takewhile(FLAGS.__contains__, word[1:]))
    rest = word[1 + len(flags) :]
    is_once = rest[:1] in ONCE_LETTERS_WITH_VALUES
    lasting = "".join(flag for flag in flags if flag not in ONCE_LETTERS) + ("" if is_once else rest)
    return [f"-{lasting}"] if lasting else [], is_once and len(rest) == 1


PREDICTORS = (["predict"], ["regressors"])
"""First words of starts that measure for predictions."""


def calls_of(words: list[str]) -> list[list[str]]:
    """Return the calls of Snakemake; predictions are measured first, then everything goes into the report."""
    return [words, words[1:]] if words[:1] in PREDICTORS else [words]


def working_folder(words: Sequence[str]) -> Path:
    """Return the folder that Snakemake works in."""
    return Path(_read(words).directory or ".")


def study_files(words: Sequence[str]) -> list[str]:
    """Return the settings files that Snakemake reads."""
    return _read(words).configfile or []


def refuse_without_workflow(words: Sequence[str]) -> None:
    """Refuse a folder without a workflow in the words of this program; a profile may name one elsewhere.

    Raises
    ------
    ConfigError
        If no Snakefile is here, and none is named.
    """
    read = _read(words)
    elsewhere = (read.snakefile, read.profile, read.workflow_profile, os.environ.get("SNAKEMAKE_PROFILE"))
    if not any(elsewhere) and not any(file.is_file() for file in SNAKEFILES):
        raise ConfigError(at(str(Path.cwd()), NO_WORKFLOW()))


def report_words(words: Sequence[str], rounds: Sequence[str] | None = None) -> list[str]:
    """Return the arguments that build the report of existing results of the same study without measuring.

    Parameters
    ----------
    words
        Arguments of Snakemake, without its name.
    rounds
        Published rounds in place of the study's; None for the study's.
    """
    read = _read(words)
    own = {"measure": "false"} if rounds is None else {"rounds": json.dumps(list(rounds)), "measure": "false"}
    kept = ["report"]
    for option in ("snakefile", "directory", "cores", "profile", "workflow_profile"):
        if (value := getattr(read, option)) is not None:
            kept += [f"--{option.replace('_', '-')}", value]
    if read.configfile:
        kept += ["--configfile", *read.configfile]
    settings = [setting for setting in read.config or [] if setting.partition("=")[0] not in own]
    return [*kept, "--config", *settings, *(f"{key}={value}" for key, value in own.items())]


def without_horovod(words: list[str]) -> list[str]:
    """Return the arguments with engine `tensorflow` for rows without an engine, if Horovod is missing.

    Arguments are unchanged if they or the study name an engine, start no run, or use an image.
    """
    given = {key: value for key, _, value in (one.partition("=") for one in _read(words).config or [])}
    if find_spec("horovod") is not None or "engine" in given or given.get("measure", "").lower() == "false":
        return words
    files = [Path(file) for file in study_files(words)] or [working_folder(words) / USUAL_STUDY]
    if any(_has_engine_or_image(file, given) for file in files):
        return words
    return _with_setting(words, f"engine={ENGINE_OF_WHEELS}")


def _has_engine_or_image(file: Path, given: Mapping[str, str]) -> bool:
    """Return whether a study names an engine, or a machine with an image, which has its own Horovod."""
    try:
        study = {**read_settings(file), **given}
        if study.get("engine"):
            return True
        folder = configuration_folder(file, str(study.get("config_dir") or ""))
        software = read_settings(folder / "machines" / f"{study.get('machine')}.yaml").get("software")
    except ConfigError:  # the workflow reports what is wrong with it
        return False
    return isinstance(software, dict) and bool(software.get("container"))


def _with_setting(words: list[str], setting: str) -> list[str]:
    """Return the arguments with one more setting; Snakemake only uses the last `--config`."""
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in ("-C", "--config"):
            return [*words[:place], option, setting, *([value] if value else []), *words[place + 1 :]]
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], "--config", setting, *words[place:]]


def _read(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-s", "--snakefile")
    parser.add_argument("-d", "--directory")
    parser.add_argument("-c", "--cores", nargs="?")
    parser.add_argument("--profile")
    parser.add_argument("--workflow-profile")
    parser.add_argument("--configfile", "--configfiles", nargs="+")
    parser.add_argument("-C", "--config", nargs="*")
    try:
        return parser.parse_known_args(words)[0]
    except argparse.ArgumentError as error:
        raise ConfigError(f"{error}; see `snakemake --help`") from error
