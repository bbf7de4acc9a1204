"""Declaration of a file format: each reader module has a ``READER``, or ``READERS`` for several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.parsers.reading import Reading


@dataclass(frozen=True)
class Reader:
    """One format that ``hpcai read`` accepts.

    Attributes
    ----------
    name
        Name on the command line, as a literal: it is read without importing the module.
    summary
        Short description of the format.
    read
        Returns the contents of a file; raises `ParseError` for files of any other tool. The optional second argument is
        the value of ``option``.
    looks
        Names that `identify` gives to such files; if no reader accepts one, this reader's reason is shown.
    read_job
        Returns the combined contents of a job's files, given the job's data folder or None.
    ending
        Ending of the files to find in a folder, for ``read_job``.
    option
        Name of a ``hpcai read`` option that only this reader accepts; blank: none.
    slow
        Whether to try it after all others, as a literal.
    asked_for
        Whether it must be named explicitly, because another reader accepts the same files.
    binary
        Whether its files are never text.
    alone
        Whether a file with one of its ``looks`` is offered to no other reader.
    """

    name: str
    summary: str
    read: Callable[..., Reading]
    looks: tuple[str, ...] = ()
    read_job: Callable[[Sequence[Path], str | None], Reading] | None = None
    ending: str = ""
    option: str = ""
    slow: bool = False
    asked_for: bool = False
    binary: bool = False
    alone: bool = False
