"""The folder next to its final place in which a dataset is made; what a download has filled outlasts its process."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.core.files import write_atomically

logger = logging.getLogger(__name__)
PARTIAL, NOTE = ".partial", ".partial.json"
"""The folder, and beside it what it was filled from, once it is complete."""


class Partial:
    """The folder of one dataset that is being made.

    Parameters
    ----------
    folder
        Folder of the dataset.
    origin
        What determines the content; blank: nothing is taken from an earlier call.

    Attributes
    ----------
    path
        The folder.
    is_filled
        Whether it is complete.
    """

    def __init__(self, folder: Path, origin: bytes) -> None:
        self.path, self._note, self._origin = folder / PARTIAL, folder / NOTE, origin
        self.is_filled = bool(origin) and self.path.is_dir() and self._noted() == origin
        if not self.is_filled:
            self.remove()
            self.path.mkdir()

    def _noted(self) -> bytes:
        return self._note.read_bytes() if self._note.is_file() else b""

    def note_filled(self) -> None:
        """Note that the folder is complete."""
        if self._origin:
            write_atomically(self._note, self._origin, durable=True)
            self.is_filled = True

    def note_emptied(self) -> None:
        """Note that files are about to leave the folder."""
        self._note.unlink(missing_ok=True)
        self.is_filled = False

    def remove(self) -> None:
        """Remove the folder, its note first."""
        self.note_emptied()
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def partial_folder(folder: Path, origin: bytes = b"") -> Iterator[Partial]:
    """Provide a folder in which to make a dataset, and remove it afterwards, unless it is filled.

    A filled folder stays after an error or a kill, and a later call with the same origin provides it again. If that
    ends with an error, too, the folder is removed: files may have been lost with the node that wrote them.

    Parameters
    ----------
    folder, origin
        As for `Partial`.
    """
    partial = Partial(folder, origin)
    was_filled = partial.is_filled
    try:
        yield partial
    except Exception:
        partial.is_filled = partial.is_filled and not was_filled
        raise
    finally:
        if partial.is_filled:
            logger.warning("%s: stays for the next start", partial.path)
        else:
            partial.remove()
