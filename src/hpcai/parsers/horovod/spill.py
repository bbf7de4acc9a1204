"""Convert a Horovod timeline of any size to Parquet in row groups, without pandas."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from hpcai.core.table_files import open_parquet
from hpcai.parsers.horovod.activities import result_bytes
from hpcai.parsers.horovod.stream import Account, Chunk, stream_timeline

_MICROSECONDS = 1e6
_NAME = pa.dictionary(pa.int32(), pa.string())
_REPEATED = ["tensor", "activity", "bytes"]
"""Columns with few distinct values; a dictionary for times would only take memory."""
SCHEMA = pa.schema(
    [
        ("tensor", _NAME),
        ("activity", _NAME),
        ("start_s", pa.float64()),
        ("duration_s", pa.float64()),
        ("bytes", pa.float64()),
        ("has_init", pa.bool_()),
    ]
)


def spill_timeline(path: Path, table: Path) -> Account:
    """Write a timeline's spans to a Parquet file while reading it; columns as in `read_timeline`, unordered.

    Parameters
    ----------
    path
        The timeline.
    table
        The file to write; it appears only when complete.

    Returns
    -------
    Account
        Missing parts with reasons; `hpcai.parsers.horovod.timeline.reading_of` turns it into a reading.

    Raises
    ------
    ParseError
        If the file is not a timeline, or nothing was recorded in it.
    """
    account = Account()
    temporary = table.with_name(f".{table.name}.part")
    try:
        with open_parquet(temporary, SCHEMA, use_dictionary=_REPEATED) as writer:
            for chunk in stream_timeline(path, account):
                writer.write_batch(_batch(chunk, account))
        temporary.replace(table)
    finally:
        temporary.unlink(missing_ok=True)
    return account


def _batch(chunk: Chunk, account: Account) -> pa.RecordBatch:
    spans = chunk.spans
    sizes = np.array([*map(result_bytes, account.dictionary.results.values), np.nan])
    tensors = [account.tensor_name(number) for number in range(max(account.tensor_names, default=0) + 1)]
    activities = [str(name) for name in account.dictionary.names.values]
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(spans.tensors), pa.array(tensors)),
        pa.DictionaryArray.from_arrays(pa.array(spans.activities), pa.array(activities)),
        pa.array(spans.starts_us / _MICROSECONDS),
        pa.array(spans.durations_us / _MICROSECONDS),
        pa.array(sizes[spans.results]),
        pa.array(spans.has_init),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
