"""Read whole TFRecord files, for tests that inspect written files."""

from collections.abc import Iterator
from pathlib import Path

from hpcai.data.tfrecord import read_file, split_records, unpack_content


def read_records(path: Path, compressed: bool) -> Iterator[bytes]:
    """Yield the verified records of a file, plain or gzip-compressed."""
    for payload in split_records(unpack_content(read_file(path), compressed), str(path)):
        yield bytes(payload)
