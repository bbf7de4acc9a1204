"""Map the path of a log to its submission, in any of the published trees or a part of one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcai.core.files import real_path
from hpcai.mlperf_hpc.rounds.model import Repair
from hpcai.mlperf_hpc.rounds.selection import is_junk

RESULT = re.compile(r"result_(?P<number>.*)\.txt")
SCALINGS = ("strong", "weak")
PRUNED = "pruned_results"
PARAMETERS = "package_checker_params"
SCALING_FILE = "scaling.json"
POWER = "power"
"""Folder of power logs next to those of the runs."""
VERSION = re.compile(r"hpc.*?(?<![0-9.])(v\d+\.\d+)(?![0-9])|^(v\d+\.\d+)$", re.IGNORECASE)
ROUND = re.compile(r"(?:hpc_results_|mlperf_hpc_|training_results_hpc_)?(v\d+\.\d+)", re.IGNORECASE)
"""Whole name of a folder above a source that is a round; part of a name may be such a version by chance."""
DEEPEST_PART = 6
"""Folders of ``ORG/results/SYSTEM/SCALING/BENCHMARK/pruned_results``."""
TITLE = re.compile(r"(?:hpc_results_|MLPerf\W{0,3}HPC )(v\d+\.\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a log; blank or None where the path does not determine it.

    Attributes
    ----------
    top
        Folder of the organisation, which contains ``results`` and ``systems``.
    folder
        Folder of the logs, without ``pruned_results``.
    """

    path: str
    number: int
    top: str
    org: str
    system: str
    scaling: str
    benchmark: str
    folder: str
    pruned: bool


def is_wanted(path: str) -> bool:
    """Select logs, system files, scaling files and READMEs by path; everything else stays unread."""
    parts = PurePosixPath(path).parts
    if any(is_junk(part) or part == POWER for part in parts[:-1]):
        return False
    name = parts[-1] if parts else ""
    if is_system_file(path):
        return True
    return RESULT.fullmatch(name) is not None or name == SCALING_FILE or is_readme(path)


def is_system_file(path: str) -> bool:
    """Recognise the descriptions of machines, ``systems/NAME.json``."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[-2] == "systems" and parts[-1].endswith(".json") and not parts[-1].startswith(".")


def is_unnumbered(path: str) -> bool:
    """Recognise a log without a number, such as ``result_a.txt``: the package counts it, a round does not."""
    found = RESULT.fullmatch(PurePosixPath(path).name)
    return found is not None and not (found["number"].isascii() and found["number"].isdigit())


def is_power_log(path: str) -> bool:
    """Recognise a power log of a run, ``power/result_N/node_M.txt``, by its path below the source."""
    return path.endswith(".txt") and POWER in PurePosixPath(path).parts[:-2]


def is_readme(path: str) -> bool:
    """Recognise the README of a repository, which may name the round."""
    parts = PurePosixPath(path).parts
    return len(parts) in (1, 2) and parts[-1].lower() == "readme.md"


def place_of(path: str, around: Sequence[str], repairs: list[Repair]) -> Place | None:
    """Return the place of a log.

    Parameters
    ----------
    path
        Relative to the source.
    around
        Folders that lead to the source, ending with its own name; empty for an archive.
    repairs
        Collects logs without a number in their names, for which None is returned.
    """
    parts = PurePosixPath(path).parts
    words = RESULT.fullmatch(parts[-1])
    digits = words["number"] if words else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        repairs.append(
            Repair(path, "name", "result_without_number", parts[-1], "left out, not read: a log is result_N.txt")
        )
        return None
    folders = (*around, *parts[:-1])
    pruned = bool(folders) and folders[-1] == PRUNED
    if pruned:
        folders = folders[:-1]
    folder = PurePosixPath(*parts[: -2 if pruned and len(parts) > 1 else -1]).as_posix()
    base = len(around) - (pruned and len(parts) == 1)
    anchor = _anchor(folders)
    if anchor is None:
        return _place_by_depth(path, int(digits), folders[base:], folder, pruned)
    rest = folders[anchor + 1 :]
    top = PurePosixPath(*folders[base:anchor]).as_posix() if anchor >= base else "."
    org = folders[anchor - 1] if anchor else ""
    scaling = rest[1] if len(rest) == 3 else ""
    return Place(path, int(digits), top, org, rest[0], scaling, rest[-1], folder, pruned)


def _anchor(folders: Sequence[str]) -> int | None:
    """Return the position of ``results`` if SYSTEM/BENCHMARK or SYSTEM/SCALING/BENCHMARK follows it."""
    size = len(folders)
    for depth in (3, 4):
        place = size - depth
        if place >= 0 and folders[place] == "results" and (depth == 3 or folders[place + 2] in SCALINGS):
            return place
    return None


def _place_by_depth(path: str, number: int, folders: Sequence[str], folder: str, pruned: bool) -> Place:
    """Return the place in a tree without ``results``: SYSTEM/BENCHMARK, or only logs."""
    scaling = folders[-2] if len(folders) >= 2 and folders[-2] in SCALINGS else ""
    if scaling:
        system = folders[-3] if len(folders) >= 3 else ""
        return Place(path, number, ".", "", system, scaling, folders[-1], folder, pruned)
    system = folders[-2] if len(folders) >= 2 else ""
    return Place(path, number, ".", "", system, "", folders[-1] if folders else "", folder, pruned)


def top_of_system(path: str) -> str:
    """Return the folder of the organisation that a system file belongs to."""
    return PurePosixPath(path).parent.parent.as_posix()


def name_of_round(source: Path, tops: Iterable[str], readme: str) -> str:
    """Return the name of a round, such as "v0.7", from names of folders and archive, else from the README.

    Falls back to the source's own base name.
    """
    own = real_path(source)
    found = [VERSION.search(own.name), *map(ROUND.fullmatch, _folders_above(own) if own.is_dir() else ())]
    found += [VERSION.search(PurePosixPath(top).parts[0]) for top in tops if top != "."]
    if named := next(filter(None, found), None):
        return (named[1] or named[2]).lower()
    if title := TITLE.search(readme):
        return title[1].lower()
    return own.name if own.is_dir() else own.name.split(".tar")[0].removesuffix(".zip")


def _folders_above(own: Path) -> Iterator[str]:
    """Yield the folder that holds the organisation of which a source is a part; no other above may name the round."""
    for folder in (own, *own.parents)[:DEEPEST_PART]:
        if all((folder / name).is_dir() for name in ("results", "systems")):
            yield folder.parent.name
