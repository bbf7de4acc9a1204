"""Base of data modules whose official container is TFRecord: TensorFlow reads the files without conversion."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from hpcai.config.benchmark import DataSettings
from hpcai.core.errors import DatasetError
from hpcai.core.messages import at
from hpcai.data.module import CHANGED_FILE, DataModule, FileFacts, Finding, Member, checksum_of, finding_of
from hpcai.data.tfrecord import FRAME_BYTES, Content, read_file, split_records, unpack_content

Data = TypeVar("Data", bound=DataSettings)
TOGETHER, TOGETHER_BYTES = 32, 256 << 10
"""Files, or bytes in them, that are read before they are examined: they stay in a core's cache."""


class TfrecordDataModule(DataModule[Data]):
    """TFRecord files, plain or gzip-compressed as a whole; a subclass checks the records."""

    @property
    def compressed(self) -> bool:
        """Whether the files are gzip-compressed."""
        return False

    @abstractmethod
    def check_record(self, payload: memoryview) -> None:
        """Raise DatasetError if a record is not a sample of this benchmark; the caller adds file and record."""

    def examine(self, file: Path) -> FileFacts:
        """Read a whole file; check framing, checksums and every record."""
        data = read_file(file)
        return self._facts(str(file), data, unpack_content(data, self.compressed))

    def examine_together(self, root: Path, paths: Sequence[str]) -> list[Finding]:
        """Examine files; small ones are read one after the other first.

        Reading and then examining each file takes up to 1.7 times as long: after a system call, a processor that
        guards its branch predictor computes slowly for a while.
        """
        found: list[Finding] = []
        read: list[tuple[str, bytes | DatasetError]] = []
        size_bytes, folder = 0, str(root)
        for number, path in enumerate(paths, 1):
            file = f"{folder}/{path}"  # no Path for each: half a million files
            data = finding_of(partial(read_file, file))
            read.append((file, data))
            size_bytes += 0 if isinstance(data, DatasetError) else len(data)
            if size_bytes >= TOGETHER_BYTES or len(read) == TOGETHER or number == len(paths):
                found += [self._finding(*one) for one in read]
                read, size_bytes = [], 0
        return found

    def _finding(self, file: str, data: bytes | DatasetError) -> Finding:
        if isinstance(data, DatasetError):
            return data
        return finding_of(lambda: self._facts(file, data, unpack_content(data, self.compressed)))

    def _facts(self, file: str, data: bytes, content: Content) -> FileFacts:
        offsets, position = [], 0
        for number, payload in enumerate(split_records(content, file)):
            try:
                self.check_record(payload)
            except DatasetError as error:
                raise DatasetError(f"{file}: record {number}: {error}") from None
            offsets.append(position)
            position += FRAME_BYTES + len(payload)
        checksum = checksum_of(data)
        return FileFacts(
            bytes=len(data),
            crc32c=checksum,
            records=len(offsets),
            content_bytes=len(content.data),
            content_crc32c=checksum if content.data is data else checksum_of(content.data),
            record_offsets=tuple(offsets),
        )

    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:  # noqa: ARG002
        """Yield the file itself, decompressed."""
        data = read_file(file)
        if len(data) == facts.bytes and checksum_of(data) == facts.crc32c:
            content = unpack_content(data, self.compressed)
            if not content.problem and checksum_of(content.data) == facts.content_crc32c:
                yield Member(file.name, content.data, facts.record_offsets)
                return
        self.examine(file)  # reports the damage, if any
        raise DatasetError(
            at(
                str(file),
                CHANGED_FILE(
                    found_bytes=len(data),
                    found_crc32c=checksum_of(data),
                    expected_bytes=facts.bytes,
                    expected_crc32c=facts.crc32c,
                ),
            )
        )
