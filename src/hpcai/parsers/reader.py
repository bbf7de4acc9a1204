"""What a module that reads a tool's files declares: its ``READER``, or ``READERS`` if there are several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.parsers.reading import Reading


@dataclass(frozen=True)
class Reader:
    """One format that ``hpcai read`` takes.

    Attributes
    ----------
    name
        Its name on the command line, as a literal: it is read without importing the module.
    summary
        What it reads, in a few words.
    read
        Returns what a file holds; a `ParseError` refuses the files of every other tool. A second argument is the value
        of ``option``.
    looks
        What `identify` calls such files: if no reader takes one, this reader's reason is shown.
    read_job
        Returns what the files of one job hold together, given the folder of its data or None.
    ending
        Of the files that are looked for in a folder, for ``read_job``.
    option
        Name of the option of ``hpcai read`` that it alone takes; blank: none.
    slow
        Whether it is asked after all others, as a literal.
    asked_for
        Whether it reads only what it is named for: another reader takes the same files.
    binary
        Whether no file of its is text.
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
