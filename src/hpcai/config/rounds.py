"""Published rounds of MLPerf HPC in a study: result repositories or archives, and their names."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from hpcai.config.reading import Problems
from hpcai.core.files import real_path
from hpcai.core.messages import Message

RESULTS = Message(
    "rounds.results",
    "the result repository or archive itself: this is a results folder, of `hpcai mlperf import` or a study; the study "
    "key rank_with, `hpcai compare` and `hpcai history` take it",
)

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")
"""Suffixes of importable archives."""
SOURCE_TABLES = ("mlperf_runs", "mlperf_weak", "mlperf_verdicts", "mlperf_repairs", "mlperf_systems")
"""Tables imported from a round for the joint analysis of all rounds."""
PREFIXES = ("mlperf_hpc_", "hpc_results_", "training_results_hpc_")
"""Prefixes of published result repositories; the rest is the round's name."""
ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")


def find_round(source: str) -> Path:
    """Return the folder or archive named in a study; ``${VARIABLE}`` is replaced."""
    return Path(os.path.expandvars(source))


def name_round(source: str) -> str:
    """Return the name of a round, from its folder or archive, such as "v0.7" for ``mlperf_hpc_v0.7.tar.xz``."""
    name = real_path(find_round(source)).name
    for end in sorted(ARCHIVES, key=len, reverse=True):
        name = name.removesuffix(end)
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def is_results_folder(folder: Path) -> bool:
    """Return whether a folder is the output of ``hpcai mlperf import`` or a study: without a log, so no round."""
    is_written = (folder / "study.json").is_file() and (folder / "tables").is_dir()
    return is_written and not any(folder.rglob("result_*.txt"))


def check_rounds(sources: Iterable[str], file: str, problems: Problems) -> None:
    """Add an error for every source that is missing, no folder or archive, results, or named like another."""
    seen: dict[str, str] = {}
    for number, source in enumerate(sources):
        place, path, name = f"rounds.{number}", find_round(source), name_round(source)
        if not path.is_dir() and not (path.is_file() and path.name.endswith(ARCHIVES)):
            allowed = f"a result repository: a folder, or an archive ending with {', '.join(ARCHIVES)}"
            problems.add(file, place, source, f"{allowed}; {path} must be there")
        elif is_results_folder(path):
            problems.add(file, place, source, RESULTS())
        elif not ALLOWED.fullmatch(name):
            problems.add(file, place, source, "a folder or archive whose name has letters, digits, _ . - alone")
        elif name in seen:
            problems.add(
                file, place, source, f"another name than {name!r}, which {seen[name]!r} has; rename one of them"
            )
        seen.setdefault(name, source)
