"""TFRecord files read whole, for tests that look at what was written."""

from collections.abc import Iterator
from pathlib import Path

from hpcai.data.tfrecord import read_file, split_records, unpack_content


def read_records(path: Path, compressed: bool) -> Iterator[bytes]:
    """Yield the records of a file, plain or compressed with gzip, verified."""
    for payload in split_records(unpack_content(read_file(path), compressed), str(path)):
        yield bytes(payload)
