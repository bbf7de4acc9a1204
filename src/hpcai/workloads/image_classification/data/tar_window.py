"""Locate the members of a tar archive, including nested archives, without unpacking them."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hpcai.core.errors import DatasetError

REFUSED = "the archive is refused; fetch it from its publisher"
_HEADER_BYTES = 1 << 20
"""Upper bound for one read by tarfile, which holds it in memory; valid archives stay far below."""
_BLOCK_BYTES = 512


class Window:
    """Part of an open file that tarfile treats as a whole file; it serves headers, never whole members.

    Parameters
    ----------
    file
        Open file; its position is changed.
    start, size
        First byte and number of bytes.
    name
        Name of the part in errors.
    """

    def __init__(self, file: BinaryIO, start: int, size: int, name: str) -> None:
        self._file, self.start, self._size, self.name = file, start, size, name
        self._position = 0

    def part(self, member: tarfile.TarInfo) -> "Window":
        """Return the content of a member of the archive in this window."""
        return Window(self._file, self.start + member.offset_data, member.size, f"{self.name}: member {member.name!r}")

    def seek(self, position: int) -> int:
        """Go to a position from the beginning of the part."""
        self._position = position
        return position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read the next bytes of a header."""
        if size > _HEADER_BYTES:
            raise DatasetError(
                f"{self.name}: found a header of {size} bytes, expected at most {_HEADER_BYTES}; {REFUSED}"
            )
        self._file.seek(self.start + self._position)
        data = self._file.read(max(0, min(size, self._size - self._position)))
        self._position += len(data)
        return data


def members(window: Window) -> Iterator[tarfile.TarInfo]:
    """Yield the files of the archive in a window; their offsets count from the window's beginning.

    Raises
    ------
    DatasetError
        If a member is a link, a device or sparse, or the archive is cut or damaged; names archive and member.
    """
    count = 0
    try:
        with tarfile.open(fileobj=window, mode="r:") as tar:  # type: ignore[call-overload]
            while (member := tar.next()) is not None:
                if not member.isreg() or member.issparse():
                    raise refused(window, member, "plain files")
                count += 1
                # Otherwise the list of members grows without bound.
                tar.members = []
                yield member
            _require_end(window, tar.offset)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DatasetError(
            f"{window.name}: after {count} members: found damage ({error}), expected a whole archive; fetch it again"
        ) from error


def _require_end(window: Window, position: int) -> None:
    """Check that an archive ends with zeros: tarfile silently treats a damaged header as the end."""
    window.seek(position)
    end = window.read(_BLOCK_BYTES)
    if end.strip(b"\0") or len(end) < _BLOCK_BYTES:
        raise DatasetError(
            f"{window.name}: byte {position}: found neither a member nor an end mark, expected one of them: a damaged "
            "header, or the tail of the archive is cut; fetch it again"
        )


def refused(window: Window, member: tarfile.TarInfo, expected: str) -> DatasetError:
    """Return the error for a member that does not belong into an archive."""
    return DatasetError(f"{window.name}: member {member.name!r}: found it there, expected {expected}; {REFUSED}")


def whole(file: BinaryIO, path: Path) -> Window:
    """Return the window of a whole open file."""
    return Window(file, 0, path.stat().st_size, str(path))
