"""Find the available readers, and read artefacts whose tool is unknown."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hpcai.core.discovery import modules_declaring
from hpcai.core.errors import ConfigError, ParseError
from hpcai.parsers.identify import is_text, looks_like
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

PATTERN = "hpcai.parsers.*"
"""Modules that may be loaded, for the digest of a rule (`hpcai.campaign.library_digest`)."""


def _declared() -> Iterator[tuple[bool, str, str]]:
    """Yield whether each reader is slow, its name and its module, without importing it."""
    package, folder = PATTERN.removesuffix(".*"), Path(__file__).parent
    for module in modules_declaring("READERS?", package, folder):
        path = folder.joinpath(*module.removeprefix(f"{package}.").split(".")).with_suffix(".py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == Reader.__name__:
                name = ast.literal_eval(call.args[0])
                slow = any(one.arg == "slow" and ast.literal_eval(one.value) for one in call.keywords)
                yield slow, name, module


MODULE_OF: Mapping[str, str] = {name: module for _, name, module in sorted(_declared(), key=lambda one: one[0])}
"""Module of each reader by name; slow ones last, those of one module in the order of declaration."""


def reader_of(name: str) -> Reader:
    """Return a reader by its name, one of `MODULE_OF`; imports only its module."""
    module = import_module(MODULE_OF[name])
    found: tuple[Reader, ...] = getattr(module, "READERS", None) or (module.READER,)
    return next(reader for reader in found if reader.name == name)


def list_readers() -> str:
    """Return one line per reader: its name and what it reads."""
    width = max(map(len, MODULE_OF))
    return "\n".join(f"{name:{width}}  {reader_of(name).summary}" for name in MODULE_OF)


def read_artefact(path: Path, tool: str | None = None) -> Reading:
    """Read an artefact with the named reader, or try all of them.

    Raises
    ------
    ParseError
        If the named reader, or every reader, refuses the file.
    """
    if not path.is_file():
        raise ParseError(f"{path}: found {looks_like(path)}, expected an output file of a tool; specify one")
    if tool is not None:
        reading: Reading = reader_of(tool).read(path)
        return reading
    looks, readers = looks_like(path), list(map(reader_of, MODULE_OF))
    # The file may have gigabytes.
    alone = next((one for one in readers if one.alone and looks in one.looks), None)
    return alone.read(path) if alone else _offer(path, looks, readers)


def _offer(path: Path, looks: str, readers: Sequence[Reader]) -> Reading:
    """Return the result of the first reader that accepts a file."""
    text = is_text(path)
    reasons: dict[str, str] = {}
    for reader in readers:
        # A binary file is never text, and importing its library takes seconds.
        if reader.asked_for or (text and reader.binary):
            continue
        try:
            reading: Reading = reader.read(path)
        except ParseError as error:
            reasons[reader.name] = str(error)
        else:
            return reading
    own = next((reader.name for reader in readers if looks in reader.looks), None)
    raise ParseError(
        f"{path}: found {looks}, which none of the readers accepts (`hpcai read --list`); "
        + (f"{own}: {reasons[own]}" if own else "name the tool (--tool) to see its reader's message")
    )


def read_job_files(paths: Sequence[Path], data_root: str | None = None, tool: str | None = None) -> Reading:
    """Read the files of one job together, one per process.

    Parameters
    ----------
    paths
        Files, or folders to search recursively.
    data_root
        Folder of the dataset; None: all files.
    tool
        A reader with ``read_job``; None: the last one that matches the file endings, or the last of all.

    Raises
    ------
    ParseError
        If there is no file, or none can be read.
    """
    reader = reader_of(tool) if tool else _fitting(paths)
    if reader.read_job is None:
        raise ConfigError(f"{reader.name}: reads one file at a time; name one")
    files = [file for path in paths for file in (sorted(path.rglob(f"*{reader.ending}")) if path.is_dir() else [path])]
    if not files:
        raise ParseError(
            f"{paths[0]}: found a folder without *{reader.ending}, expected files of {reader.name}; "
            "name the file to read"
        )
    return reader.read_job(files, data_root)


def _fitting(paths: Sequence[Path]) -> Reader:
    readers = [reader for reader in _of_jobs() if not reader.asked_for]
    fitting = [one for one in readers if all(_has_ending(path, one.ending) for path in paths)]
    return (fitting or readers)[-1]


def _has_ending(path: Path, ending: str) -> bool:
    return any(path.rglob(f"*{ending}")) if path.is_dir() else path.name.endswith(ending)


def _of_jobs() -> list[Reader]:
    return [reader for reader in map(reader_of, MODULE_OF) if reader.read_job is not None]


def read_as_asked(
    files: Sequence[Path], tool: str | None, data_root: str | None, options: Mapping[str, Any]
) -> Reading:
    """Read the files named on a command line: one artefact, or the files of a job.

    Parameters
    ----------
    files
        Files, or folders.
    tool
        Name of a reader; None: the first that accepts the file.
    data_root
        Folder of a job's data, or None.
    options
        Reader-specific options by name; None: not given.

    Raises
    ------
    ConfigError
        If the reader does not exist, or does not accept these files or options.
    ParseError
        As `read_artefact`.
    """
    if tool is not None and tool not in MODULE_OF:
        raise ConfigError(f"--tool: found {tool}; allowed: {', '.join(MODULE_OF)}")
    together = len(files) > 1 or files[0].is_dir() or data_root is not None
    if together and tool is not None and reader_of(tool).read_job is None:
        allowed = ", ".join(reader.name for reader in _of_jobs())
        raise ConfigError(f"--tool: found {tool}; allowed: {allowed}, for several files, a folder or --data-root")
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        reader = next(one for one in map(reader_of, MODULE_OF) if one.option == name)
        if together or len(given) > 1 or tool not in (None, reader.name):
            raise ConfigError(f"--{name}: found {value}; allowed: with one file of {reader.name} only")
        reading: Reading = reader.read(files[0], value)
        return reading
    return read_job_files(files, data_root, tool) if together else read_artefact(files[0], tool)
