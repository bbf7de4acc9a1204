"""Sealed JSON files of models with tables: rows in the file itself, or, of large datasets, in a table beside it."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from hpcai.config.base import Count, Settings
from hpcai.core.errors import DatasetError
from hpcai.core.files import write_atomically
from hpcai.core.sealed import seal, sealed_model, unseal
from hpcai.data.columns import Array, column_digest
from hpcai.data.table import StoredColumns, Table, adjacent
from hpcai.data.tfrecord import read_file

INLINE_NUMBERS = 10_000
"""Files and records up to which the JSON file lists them, so that everybody can read them; CosmoFlow has 589,824."""
TABLED_VERSION = 3
"""``schema_version`` of files with a table; earlier versions of this program refuse them by this key."""
_TABLED = re.compile(rb'\s*\{\s*"schema_version":\s*%d\b' % TABLED_VERSION)
_PLACE = re.compile(rb'\{"first_row":\d+,"rows":\d+\}')
_AT_ONCE = 4096
Model = TypeVar("Model", bound=BaseModel)


class _TableFile(Settings):
    """The table beside a file: an npz file, and the SHA-256 of its columns."""

    file: str = Field(pattern=r"^[a-z]+-[0-9a-f]{12}\.npz$")
    rows: Count
    columns: dict[str, str]


class _Outer(Settings):
    """What a file with a table has beside the model."""

    content_digest: str
    table: _TableFile


def content_digest(model: BaseModel, exclude: Set[str]) -> str:
    """Return the SHA-256 of a model's JSON text with all rows; a file with a table has noted it.

    Parameters
    ----------
    model
        A model with tables.
    exclude
        Fields that do not count.
    """
    tables: list[Table[Any]] = []
    text = model.model_dump_json(exclude=set(exclude), context=tables).encode()
    noted = _noted(tables)
    if noted is not None and noted[0] == text:
        return noted[1]
    whole = hashlib.sha256()
    for words, table in zip_longest(_PLACE.split(text), tables):
        whole.update(words)
        if table is not None:
            whole.update(b"[")
            for start in range(0, len(table), _AT_ONCE):
                whole.update((b"," if start else b"") + table[start : start + _AT_ONCE].json_rows())
            whole.update(b"]")
    return whole.hexdigest()


def _noted(tables: list[Table[Any]]) -> tuple[bytes, str] | None:
    """Return what a file noted, if the tables are all of its rows in their order."""
    columns = tables[0].columns if tables else None
    if not isinstance(columns, StoredColumns) or adjacent(tables) != range(sum(map(len, tables))):
        return None
    return columns.noted


def write_tabled(model: BaseModel, path: Path, exclude: Set[str]) -> None:
    """Write a model with a digest of its own bytes, after its table if it is large; each file appears atomically.

    Parameters
    ----------
    model
        A model with tables of one kind of rows.
    path
        The JSON file; tables of earlier versions of it are removed.
    exclude
        Fields that do not count for `content_digest`.
    """
    tables: list[Table[Any]] = []
    values = json.loads(model.model_dump_json(context=tables))
    if sum(_numbers(table) for table in tables) <= INLINE_NUMBERS:
        write_atomically(path, sealed_model(model))
        kept = ""
    else:
        whole = Table.joined(tables[0].row, tables).compact()
        with ThreadPoolExecutor(1) as beside:  # zlib leaves the interpreter to the digest
            packing = beside.submit(_packed, whole.columns)
            digest, content = content_digest(model, exclude), packing.result()
        kept = f"{path.stem}-{hashlib.sha256(content).hexdigest()[:12]}.npz"
        write_atomically(path.parent / kept, content)
        digests = {name: column_digest(column) for name, column in whole.columns.items()}
        facts = _Outer(content_digest=digest, table=_TableFile(file=kept, rows=len(whole), columns=digests))
        text = json.dumps({**values, "schema_version": TABLED_VERSION, **facts.model_dump()}, indent=1) + "\n"
        write_atomically(path, seal(text.encode()))
    for other in path.parent.glob(f"{path.stem}-????????????.npz"):
        if other.name != kept:
            other.unlink()


def _packed(columns: Mapping[str, Array]) -> bytes:
    """Return columns as an npz file, compressed as fast as zlib does: checksums cannot be compressed, paths easily."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, column, allow_pickle=False)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _numbers(table: Table[Any]) -> int:
    return len(table) + int(table.lists("record_offsets")[1].sum())


def read_tabled(path: Path, model: type[Model], exclude: Set[str], remedy: str) -> Model:
    """Read a file of `write_tabled`; of a table, only what is used is read, and checked then.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or has another schema; names the place and the remedy.
    """
    text = _unsealed(path, remedy)
    if not _TABLED.match(text):
        return _validated(path, model, text, remedy)
    values = json.loads(text)
    own = {key: values.pop(key, None) for key in _Outer.model_fields}
    outer = _validated(path, _Outer, json.dumps(own).encode(), remedy)
    columns = StoredColumns(path.parent / outer.table.file, outer.table.rows, outer.table.columns, remedy)
    values["schema_version"] = model.model_fields["schema_version"].default
    found = _validated(path, model, json.dumps(values).encode(), remedy, columns)
    columns.noted = (found.model_dump_json(exclude=set(exclude), context=[]).encode(), outer.content_digest)
    return found


def read_json(path: Path, model: type[Model], remedy: str) -> Model:
    """Read one of our JSON files; check it against the digest at its end, if there is one.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or has another schema; names the place and the remedy.
    """
    return _validated(path, model, _unsealed(path, remedy), remedy)


def _unsealed(path: Path, remedy: str) -> bytes:
    try:
        return unseal(read_file(path)).text
    except ValueError as error:
        raise DatasetError(f"{path}: {error}; {remedy}") from error


def _validated(path: Path, model: type[Model], text: bytes, remedy: str, columns: StoredColumns | None = None) -> Model:
    try:
        return model.model_validate_json(text, context=columns)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        found = re.sub(r"\s+", " ", repr(first["input"]))[:100]
        raise DatasetError(
            f"{path}: {place}: found {found}, expected a valid {model.__name__} ({first['msg']}); {remedy}"
        ) from None
