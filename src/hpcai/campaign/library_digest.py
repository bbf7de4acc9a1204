"""Library files that a script depends on: editing one of them reruns the script's rule, other edits do not.

Snakemake notices edits of a script, but not of its imports.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = "hpcai"
# Scan text instead of syntax trees, which take 50 times as long: imports anywhere in a file, including functions, and
# module names as strings, as in registries and `python -m`. A star matches any module and everything below it. A name
# in a comment would only add a file.
_REFERENCE = re.compile(
    rf"^[ \t]*from ({_PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]*)"
    rf"|^[ \t]*import ({_PACKAGE}[\w.]*)"
    rf"|[\"']({_PACKAGE}(?:\.(?:\w+|\*))+)",
    re.MULTILINE,
)


@cache
def library_digest(script: Path, source: Path) -> str:
    """Return a digest of all library files that a script or module may load.

    Parameters
    ----------
    script
        A Python file inside or outside of the library.
    source
        Folder that holds the package `hpcai`.

    Returns
    -------
    str
        The first 16 digits of the SHA-256 of the names and contents of `import_closure`.
    """
    digest = hashlib.sha256()
    for file in sorted(import_closure(script, source)):
        digest.update(f"{file.relative_to(source)}\0".encode())
        digest.update(_content(file))
    return digest.hexdigest()[:16]


def import_closure(script: Path, source: Path) -> frozenset[Path]:
    """Return all library files that a script may load.

    Parameters
    ----------
    script
        A Python file; if it is part of the library, it is part of its closure.
    source
        Folder that holds the package `hpcai`.

    Returns
    -------
    frozenset of Path
        Modules imported at the top or on demand, their packages, and the data files (such as the suites' rules) in the
        folders of those modules.
    """
    inside = script.is_relative_to(source)
    found = set(_modules_on_the_way(_module_name(script, source), source)) if inside else set()
    waiting = [script, *found]
    while waiting:
        new = set(_loaded_by(waiting.pop(), source)) - found
        found |= new
        waiting += new
    return frozenset(found.union(*(_data_files(folder) for folder in {file.parent for file in found})))


@cache
def _loaded_by(file: Path, source: Path) -> tuple[Path, ...]:
    names = _names_in(_content(file).decode())
    return tuple(sorted({module for name in names for module in _modules_on_the_way(name, source)}))


def _names_in(text: str) -> Iterator[str]:
    for package, members, module, quoted in _REFERENCE.findall(text):
        yield package or module or quoted
        yield from (f"{package}.{member}" for member in re.findall(r"\w+", members))


def _modules_on_the_way(name: str, source: Path) -> Iterator[Path]:
    """Return the module of a dotted name and the packages above it; the name of a function resolves to its module."""
    if "*" in name:
        for found in _matching(name, source):
            yield from _modules_on_the_way(found, source)
        return
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        if module := _modules(source).get(".".join(parts[:length])):
            yield module


@cache
def _matching(name: str, source: Path) -> tuple[str, ...]:
    """Return the modules matching a name with stars, and all below them."""
    wanted = re.compile(re.escape(name).replace(r"\*", r"\w+") + r"(\.|$)")
    return tuple(module for module in _modules(source) if wanted.match(module))


@cache
def _modules(source: Path) -> dict[str, Path]:
    return {_module_name(file, source): file for file in (source / _PACKAGE).rglob("*.py")}


def _module_name(file: Path, source: Path) -> str:
    return ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


@cache
def _data_files(folder: Path) -> frozenset[Path]:
    return frozenset(file for file in folder.iterdir() if file.is_file() and not file.name.endswith((".py", ".pyc")))


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()
