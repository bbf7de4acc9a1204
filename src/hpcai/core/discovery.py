"""Find declarations of modules in their source text, without importing them."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def modules_declaring(variable: str, package: str, folder: Path) -> tuple[str, ...]:
    """Return the dotted names of the modules that assign a variable at their top level.

    Parameters
    ----------
    variable
        Name of the variable, such as ``LAUNCHER``.
    package
        Package to search, including subpackages.
    folder
        Folder of the package.
    """
    declared = re.compile(rf"^{variable}\b(?:: [^=\n]+)? = ", re.MULTILINE)
    return tuple(sorted(_names(declared, package, folder)))


def _names(declared: re.Pattern[str], package: str, folder: Path) -> Iterator[str]:
    for file in folder.rglob("*.py"):
        if declared.search(file.read_text(encoding="utf-8")):
            yield ".".join((package, *file.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
