"""Limits on reading a source: far above any published round, and a barrier against archive bombs."""

from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.parsers.mllog import TOKEN

FILE_BYTES = 32 << 20
"""One file; the longest published log has 1.3 MB."""
FILE_LINES = 100_000
"""Lines with an event in one file; the published log with the most has 5,000."""
FILES = 20_000
"""Files read; the largest round has 1,347 logs."""
TOTAL_BYTES = 1 << 30
"""Total size of all files read; the logs of the largest round have 230 MB."""
TOTAL_LINES = 2_000_000
"""Lines with an event in all files together; the largest round has 940,000."""
MEMBERS = 200_000
"""Files and folders of an archive, read or skipped; the largest round has 2,800."""
ARCHIVE_BYTES = 16 << 30
"""Size of an archive unpacked, including skipped files; the largest round has 240 MB."""
HEAD_BYTES = 64 << 10
"""Long names and attributes before one member of a tar archive; tarfile reads them into memory whole."""
XZ_MEMORY_BYTES = 128 << 20
"""Memory that an xz stream may request; `xz -9` needs 65 MiB."""


@dataclass
class Budget:
    """Counts what was read of one source; each method refuses to exceed its limit.

    Attributes
    ----------
    source
        Folder or archive, for messages.
    files, total_bytes, lines
        Files read, with their bytes and lines that hold events.
    members, unpacked_bytes
        Members and bytes of an archive, including skipped ones.
    """

    source: Path
    files: int = 0
    total_bytes: int = 0
    lines: int = 0
    members: int = 0
    unpacked_bytes: int = 0

    def read(self, size_bytes: int, lines: int) -> None:
        """Count one file that is read."""
        self.files += 1
        self.total_bytes += size_bytes
        self.lines += lines
        self._hold(self.files, FILES, "logs and system files")
        self._hold(self.total_bytes, TOTAL_BYTES, "bytes of logs and system files")
        self._hold(self.lines, TOTAL_LINES, "lines with events")

    def pass_member(self, size_bytes: int) -> None:
        """Count one member of an archive, read or skipped; an excessive size is refused before the member is read."""
        self.members += 1
        self._hold(self.members, MEMBERS, "files and folders in the archive")
        self._hold(self.unpacked_bytes + size_bytes, ARCHIVE_BYTES, "bytes in the unpacked archive")

    def unpack(self, size_bytes: int) -> None:
        """Count unpacked bytes of an archive, read or skipped."""
        self.unpacked_bytes += size_bytes
        self._hold(self.unpacked_bytes, ARCHIVE_BYTES, "bytes in the unpacked archive")

    def _hold(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise ParseError(
                f"{self.source}: found more than {most:,} {what}, expected one round, which has far fewer; nothing of "
                "it was imported. If it is not a damaged or hostile file, unpack it and name one organisation's folder"
            )


def lines_in(content: bytes) -> int:
    """Return an upper bound for the number of events in a file."""
    return content.count(TOKEN.encode())
