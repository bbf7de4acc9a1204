"""Tables in Parquet files, written and read only here; a changed bit is an error, never a different number.

Each page has a checksum, which other programs can verify as well (pyarrow: `page_checksum_verification`). The footer
has none in this format, and a small table is mostly footer; so the SHA-256 of the whole file is stored in the gap
before the footer, which Parquet readers ignore. Files of earlier versions have neither and are read without a check.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from hpcai.core.errors import TableError
from hpcai.core.files import read_regular

if TYPE_CHECKING:
    import pandas as pd

_TAG = b"hpcai:sha256="
_SEAL_BYTES = len(_TAG) + hashlib.sha256().digest_size
_TAIL_BYTES = 8
"""The length of the footer, and b"PAR1"."""


def write_parquet(frame: "pd.DataFrame", path: str | Path) -> None:
    """Write a table with checksums and without its index; equal frames give equal bytes.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    content = frame.to_parquet(None, index=False, engine="pyarrow", compression="zstd", write_page_checksum=True)
    Path(path).write_bytes(_seal(content))


def open_parquet(path: Path, schema: pa.Schema, **options: object) -> pq.ParquetWriter:
    """Return a writer for a table too large for memory: its pages have checksums, its footer has none.

    Parameters
    ----------
    path, schema
        The file, and its columns.
    options
        Further options of :class:`pyarrow.parquet.ParquetWriter`.
    """
    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True, **options)


def read_parquet(path: str | Path, columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read a table back.

    Parameters
    ----------
    path
        The file.
    columns
        Selected columns; defaults to all.

    Raises
    ------
    TableError
        If the file is missing, is not a table, or was truncated or changed since it was written.
    """
    try:
        content = read_regular(Path(path))
        _check(content)
        wanted = None if columns is None else list(columns)
        # Neither pandas' nor pyarrow's read_table: their threads abort or hang about 2 % of short processes at exit
        # (apache/arrow issues 34314 and 50482).
        file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False, page_checksum_verification=True)
        frame: pd.DataFrame = file.read(wanted, use_threads=False).to_pandas(use_threads=False)
        return frame
    except FileNotFoundError as error:
        raise TableError(
            f"{path}: no such file, expected a Parquet table; run the workflow again to create it"
        ) from error
    except Exception as error:  # a changed footer may cause any error of pyarrow or pandas
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise TableError(
            f"{path}: no Parquet table, or a damaged one ({reason}); delete it and run the workflow again to recreate "
            f"it"
        ) from error


def _seal(content: bytes) -> bytes:
    place = _footer_place(content)
    return content[:place] + _TAG + hashlib.sha256(content).digest() + content[place:]


def _check(content: bytes) -> None:
    place = _footer_place(content)
    seal = content[max(place - _SEAL_BYTES, 0) : max(place, 0)]
    if not seal.startswith(_TAG):
        if _TAG in content:
            raise ValueError("its end was changed since it was written")
        return
    whole = hashlib.sha256(content[: place - _SEAL_BYTES])
    whole.update(content[place:])
    if whole.digest() != seal.removeprefix(_TAG):
        found, expected = whole.hexdigest()[:12], seal.removeprefix(_TAG).hex()[:12]
        raise ValueError(f"found SHA-256 {found}, expected {expected} as it was written")


def _footer_place(content: bytes) -> int:
    """Return the offset of a Parquet file's footer, which ends with its own length and four letters."""
    return len(content) - _TAIL_BYTES - int.from_bytes(content[-_TAIL_BYTES:-4], "little")
