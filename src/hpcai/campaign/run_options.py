"""The Snakemake arguments that ``hpcai run`` interprets (which study, and where); all others are passed on."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from hpcai.core.errors import ConfigError

ANSWERS = {
    *["-n", "--dry-run", "--dryrun", "-h", "--help", "-v", "--version", "--dag", "--rulegraph", "--filegraph"],
    *["--d3dag", "--summary", "-S", "--detailed-summary", "-D", "--list-rules", "--list", "-l", "--lint"],
    *["--list-target-rules", "--lt", "--list-changes", "--lc", "--unlock", "--report", "--touch", "-t"],
    *["--containerize", "--cleanup-metadata", "--cm", "--archive", "--delete-all-output"],
}
"""Options with which Snakemake starts no job: its output is what was asked for."""


def only_answers(words: Sequence[str]) -> bool:
    """Whether Snakemake starts no job with these arguments."""
    return bool(ANSWERS & set(words))


def calls_of(words: list[str]) -> list[list[str]]:
    """Return the calls of Snakemake; predictions are measured first, then everything is put into the report."""
    return [words, words[1:]] if words[:1] == ["predict"] else [words]


def working_folder(words: Sequence[str]) -> Path:
    """Return the folder that Snakemake works in."""
    return Path(_read(words).directory or ".")


def study_files(words: Sequence[str]) -> list[str]:
    """Return the files of settings that Snakemake is to read."""
    return _read(words).configfile or []


def report_words(words: Sequence[str]) -> list[str]:
    """Return the arguments that make the report of what is there, of the same study, and measure nothing."""
    read = _read(words)
    kept = ["report"]
    for option in ("snakefile", "directory", "cores", "profile", "workflow_profile"):
        if (value := getattr(read, option)) is not None:
            kept += [f"--{option.replace('_', '-')}", value]
    if read.configfile:
        kept += ["--configfile", *read.configfile]
    settings = [setting for setting in read.config or [] if not setting.startswith("measure=")]
    return [*kept, "--config", *settings, "measure=false"]


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
