"""Hygiene of a repository of results: names, sizes and links that git or a reviewer stumbles over.

The package's ``repo_checker`` answers "False" for a clean folder too, follows links from the folder in which it is
started rather than from where they stand, and takes git's own folder for a bad name. Here a link is followed from its
place, and ``.git`` is left out.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from hpcai.mlperf_hpc.compliance.model import Finding
from hpcai.mlperf_hpc.rounds.texts import printable

RULE = "repo_checker"
LARGEST_BYTES = 50 * 1024 * 1024


def check_hygiene(root: Path) -> list[Finding]:
    """Look at all names, sizes and links below a folder.

    Returns
    -------
    list of Finding
        Warnings, because the package checker looks at none of these.
    """
    return [
        Finding(printable(path.relative_to(root).as_posix()), None, name, f"{RULE}: {rule}", message, "warning")
        for path, name, rule, message in _look(root)
    ]


def _look(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in (*folders, *sorted(files)):
            path = Path(folder, name)
            if name.startswith(".") or " " in name:
                yield path, "name", "names", f"{name!r} has a blank or begins with a dot"
            if path.is_symlink():
                if not path.exists():
                    target = printable(str(path.readlink()))
                    yield path, "link", "links", f"the link leads to {target}, where nothing is"
            elif path.is_file() and path.stat().st_size > LARGEST_BYTES:
                size_mib = path.stat().st_size / 1024**2
                yield path, "size", "sizes", f"the file has {size_mib:.0f} MiB, expected at most 50 MiB"
