"""How much of a source is read: no published round comes near these limits, and no bomb gets beyond them."""

from dataclasses import dataclass
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.parsers.mllog import TOKEN

FILE_BYTES = 32 << 20
"""One file; the longest published log has 1.3 MB."""
FILE_LINES = 100_000
"""Lines with an event in one file; the published log with the most has 5,000."""
FILES = 20_000
"""Files that are read; the largest round has 1,347 logs."""
TOTAL_BYTES = 1 << 30
"""All files that are read together; the logs of the largest round have 230 MB."""
TOTAL_LINES = 2_000_000
"""Lines with an event in all files together; the largest round has 940,000."""
MEMBERS = 200_000
"""Files and folders of an archive, read or not; the largest round has 2,800."""
ARCHIVE_BYTES = 16 << 30
"""An archive unpacked, with what is not read; the largest round has 240 MB."""
HEAD_BYTES = 64 << 10
"""Long names and attributes before one member of a tar archive; tarfile reads them into memory as a whole."""
XZ_MEMORY_BYTES = 128 << 20
"""Memory that an xz stream may ask for; `xz -9` needs 65 MiB."""


@dataclass
class Budget:
    """What was read of one source so far; each method counts, and refuses what goes beyond a limit.

    Attributes
    ----------
    source
        Folder or archive, for messages.
    files, total_bytes, lines
        Of the files that were read, with the lines that hold events.
    members, unpacked_bytes
        Of an archive, with what was passed over.
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
        """Count one member of an archive, read or not; a size beyond all is refused before its end is looked for."""
        self.members += 1
        self._hold(self.members, MEMBERS, "files and folders in the archive")
        self._hold(self.unpacked_bytes + size_bytes, ARCHIVE_BYTES, "bytes in the unpacked archive")

    def unpack(self, size_bytes: int) -> None:
        """Count what an archive was unpacked to, read or not."""
        self.unpacked_bytes += size_bytes
        self._hold(self.unpacked_bytes, ARCHIVE_BYTES, "bytes in the unpacked archive")

    def _hold(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise ParseError(
                f"{self.source}: found more than {most:,} {what}, expected one round, which has far fewer; nothing of "
                "it was imported. If it is not a damaged or hostile file, unpack it and name one organisation's folder"
            )


def lines_in(content: bytes) -> int:
    """Return how many events a file holds at most."""
    return content.count(TOKEN.encode())
