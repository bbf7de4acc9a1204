"""Rows of a manifest as columns: half a million files in tens of megabytes, and in a file read column by column."""

import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationInfo
from pydantic_core import CoreSchema, core_schema, to_json

from hpcai.core.errors import DatasetError
from hpcai.core.files import regular_bytes
from hpcai.core.messages import Message, at
from hpcai.data.columns import BLOCK, Array, bounds_of, column_digest, gathered, smallest

DAMAGED = Message("table.damaged", "column {column}: found {found}, expected {expected}; {remedy}")

Row = TypeVar("Row", bound=BaseModel)
Kind = Literal["number", "hexadecimal", "text", "numbers"]
_BOUNDS = "_bounds"
ODD_PART = re.compile(r"(?m)(?:^|/)\.{0,2}(?:/|$)")
"""An empty part of a path, or one that is ``.`` or ``..``; one path per line."""
_MOST_LETTERS = 500
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""What a text of JSON cannot hold as it is (RFC 8259, section 7)."""


@cache
def _kinds(row: type[BaseModel]) -> dict[str, Kind]:
    """Return how each field of a row is stored."""
    kinds: dict[str, Kind] = {}
    for name, field in row.model_fields.items():
        if get_origin(field.annotation) is tuple:
            kinds[name] = "numbers"
        elif field.annotation is int:
            kinds[name] = "number"
        else:
            kinds[name] = "hexadecimal" if name.endswith("crc32c") else "text"
    return kinds


class Table(Sequence[Row], Generic[Row]):
    """A sequence of rows, each made when it is looked at; `numbers`, `texts` and `lists` make none.

    Parameters
    ----------
    row
        Model of the rows: its fields are numbers, CRC-32C checksums, paths, and tuples of numbers.
    columns
        Arrays by name; paths and tuples have a second one, the bounds of the rows in the first.
    chosen
        Rows of the columns that belong to this table, in order.
    """

    def __init__(self, row: type[Row], columns: Mapping[str, Array], chosen: range | NDArray[np.int64]) -> None:
        self.row, self.columns, self.chosen = row, columns, chosen

    @classmethod
    def of(cls, row: type[Row], rows: Sequence[Row]) -> "Table[Row]":
        """Return rows as a table."""
        return cls.of_values(row, {name: [getattr(one, name) for one in rows] for name in _kinds(row)})

    @classmethod
    def of_values(cls, row: type[Row], values: Mapping[str, Sequence[Any]]) -> "Table[Row]":
        """Return rows as a table, from the values of each field; `accepts` checks them."""
        columns: dict[str, Array] = {}
        for name, kind in _kinds(row).items():
            own = values[name]
            if kind == "number":
                columns[name] = smallest(own)
            elif kind == "hexadecimal":
                columns[name] = np.array([int(value, 16) for value in own], np.uint32)
            elif kind == "numbers":
                columns[name] = smallest([number for value in own for number in value])
                columns[name + _BOUNDS] = bounds_of([len(value) for value in own])
            else:
                encoded = [value.encode() for value in own]
                columns[name] = np.frombuffer(b"".join(encoded), np.uint8)
                columns[name + _BOUNDS] = bounds_of([len(value) for value in encoded])
        return cls(row, columns, range(len(own)))

    @classmethod
    def collected(cls, row: type[Row], rows: Iterable[Row]) -> "Table[Row]":
        """Return rows as a table, with few of them in memory at a time."""
        remaining = iter(rows)
        blocks: list[Table[Row]] = []
        while block := list(islice(remaining, BLOCK)):
            blocks.append(cls.of(row, block))
        return cls.stacked(row, blocks)

    @classmethod
    def stacked(cls, row: type[Row], tables: Sequence["Table[Row]"]) -> "Table[Row]":
        """Return the rows of tables that nobody else uses: each of their columns is dropped once it is copied."""
        if len(tables) == 1:
            return tables[0]
        columns: dict[str, Array] = {}
        for name, kind in _kinds(row).items():
            columns |= _stacked(name, kind, tables)
            for table in tables:
                table.columns = {other: column for other, column in table.columns.items() if other not in columns}
        return cls(row, columns, range(sum(map(len, tables))))

    @classmethod
    def joined(cls, row: type[Row], tables: Sequence["Table[Row]"]) -> "Table[Row]":
        """Return the rows of several tables, one after the other; parts of one file stay there."""
        first = tables[0].columns if tables else {}
        if tables and all(table.columns is first for table in tables):
            if (rows := adjacent(tables)) is not None:
                return cls(row, first, rows)
            chosen = np.concatenate([np.asarray(table.chosen, np.int64) for table in tables])
            return cls(row, first, chosen)
        return cls.copied(row, tables)

    @classmethod
    def copied(cls, row: type[Row], tables: Sequence["Table[Row]"]) -> "Table[Row]":
        """Return the rows of several tables in columns of their own."""
        columns: dict[str, Array] = {}
        for name, kind in _kinds(row).items():
            columns |= _stacked(name, kind, tables)
        return cls(row, columns, range(sum(map(len, tables))))

    def compact(self) -> "Table[Row]":
        """Return these rows in columns that have no others; the same ones if they have none."""
        name, kind = next(iter(_kinds(self.row).items()))
        rows = len(self.columns[name]) if kind in {"number", "hexadecimal"} else len(self.columns[name + _BOUNDS]) - 1
        whole = isinstance(self.chosen, range) and self.chosen == range(rows)
        return self if whole else self.copied(self.row, [self])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.chosen)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> "Table[Row]": ...

    def __getitem__(self, place: int | slice) -> "Row | Table[Row]":
        """Return a row, or some as a table."""
        if isinstance(place, slice):
            return Table(self.row, self.columns, self.chosen[place])
        index = range(len(self))[place]
        return next(iter(self[index : index + 1]))

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        for values in self.plain_rows():
            yield self.row.model_construct(**values)

    def __eq__(self, other: object) -> bool:
        """Compare row by row."""
        if not isinstance(other, Table) or self.row is not other.row or len(self) != len(other):
            return False
        return all(mine == its for mine, its in zip(self.plain_rows(), other.plain_rows(), strict=True))

    __hash__ = None  # type: ignore[assignment]

    def take(self, places: NDArray[np.int64]) -> "Table[Row]":
        """Return the rows at some places, in their order."""
        if np.array_equal(places, np.arange(len(places))):
            return self[: len(places)]  # sorted already, as files usually are; a range needs no memory for each row
        return Table(self.row, self.columns, np.asarray(self.chosen, np.int64)[places])

    def plain_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as plain values."""
        kinds = _kinds(self.row)
        for start in range(0, len(self), BLOCK):
            block = self[start : start + BLOCK]
            columns = [block._values(name, kind) for name, kind in kinds.items()]
            for values in zip(*columns, strict=True):
                yield dict(zip(kinds, values, strict=True))

    def json_rows(self) -> bytes:
        """Return the rows as JSON, separated by commas: what pydantic makes of `plain_rows`, in half the time."""
        kinds = _kinds(self.row)
        columns = [self._json_values(name, kind) for name, kind in kinds.items()]
        row = ",".join(f'"{name}":{column_format}' for name, (column_format, _) in zip(kinds, columns, strict=True))
        values = chain.from_iterable(zip(*(values for _, values in columns), strict=True))
        return (",".join([f"{{{row}}}"] * len(self)) % tuple(values)).encode()

    def _json_values(self, name: str, kind: Kind) -> tuple[str, Sequence[object]]:
        """Return how a column's values are formatted, and the values."""
        if kind == "text":
            texts = self.texts(name)
            if _ESCAPED.search("".join(texts)):
                return "%s", [to_json(text).decode() for text in texts]
            return '"%s"', texts
        if kind == "numbers":
            flat, lengths = self.lists(name)
            if (lengths == 1).all():
                return "[%d]", flat.tolist()
            return "[%s]", [",".join(map(str, some)) for some in self._tuples(name)]
        return ('"%08x"' if kind == "hexadecimal" else "%d"), self.numbers(name).tolist()

    def _values(self, name: str, kind: Kind) -> Sequence[object]:
        if kind == "text":
            return self.texts(name)
        if kind == "numbers":
            return self._tuples(name)
        numbers: list[int] = self.numbers(name).tolist()
        return [f"{number:08x}" for number in numbers] if kind == "hexadecimal" else numbers

    def _tuples(self, name: str) -> list[tuple[int, ...]]:
        flat, lengths = self.lists(name)
        listed, ends = flat.tolist(), [0, *np.cumsum(lengths).tolist()]
        return [tuple(listed[start:end]) for start, end in pairwise(ends)]

    def numbers(self, name: str) -> Array:
        """Return a column of numbers, unsigned, in the smallest type of their file."""
        return self._of(self.columns[name])

    def total(self, name: str) -> int:
        """Return the sum of a column of numbers."""
        return int(self.numbers(name).sum(dtype=np.uint64))

    def _of(self, column: Array) -> Array:
        chosen = self.chosen
        if isinstance(chosen, range):
            return column[chosen.start : chosen.stop : chosen.step]
        return column[chosen]

    def _spans(self, name: str) -> tuple[Array, Array]:
        bounds = self.columns[name + _BOUNDS]
        return self._of(bounds[:-1]).astype(np.int64), self._of(bounds[1:]).astype(np.int64)

    def texts(self, name: str) -> list[str]:
        """Return a column of texts."""
        letters = self.columns[name].data
        starts, ends = self._spans(name)
        return [str(letters[start:end], "utf-8") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def order(self, name: str) -> NDArray[np.int64]:
        """Return the places of the rows in the order of a column of texts."""
        if self._is_sorted(name):
            return np.arange(len(self))
        starts, ends = self._spans(name)
        letters = self.columns[name]
        width = int((ends - starts).max(initial=1))
        texts = np.zeros((len(self), width), np.uint8)
        for column in range(width):
            inside = starts + column < ends
            texts[inside, column] = letters[starts[inside] + column]
        return np.argsort(texts.view(f"S{width}")[:, 0], kind="stable")

    def _is_sorted(self, name: str) -> bool:
        last = ""
        for start in range(0, len(self), BLOCK):
            texts = [last, *self[start : start + BLOCK].texts(name)]
            if texts != sorted(texts):
                return False
            last = texts[-1]
        return True

    def lengths(self, name: str) -> NDArray[np.int64]:
        """Return the length of each tuple of a column."""
        starts, ends = self._spans(name)
        lengths: NDArray[np.int64] = ends - starts
        return lengths

    def lists(self, name: str) -> tuple[Array, NDArray[np.int64]]:
        """Return the tuples of a column, one after the other, and the length of each."""
        starts, ends = self._spans(name)
        lengths, flat = ends - starts, self.columns[name]
        if isinstance(self.chosen, range) and self.chosen.step == 1 and len(starts):
            return flat[starts[0] : ends[-1]], lengths
        return gathered(flat, starts, lengths), lengths

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        """Accept rows, a table, or the place of a table in a file; give rows back, or the place."""
        (row,) = get_args(source)
        rows = handler.generate_schema(tuple[row, ...])  # type: ignore[valid-type]

        def read(value: object, check: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> "Table[Row]":
            if isinstance(value, Table):
                return value
            if isinstance(info.context, StoredColumns) and isinstance(value, Mapping):
                return info.context.table(row, **value)
            return cls.of(row, check(value))

        def write(table: "Table[Row]", info: SerializationInfo) -> object:
            if isinstance(info.context, list):
                info.context.append(table)
                return {"first_row": sum(map(len, info.context[:-1])), "rows": len(table)}
            return list(table.plain_rows())

        return core_schema.with_info_wrap_validator_function(
            read,
            rows,
            serialization=core_schema.plain_serializer_function_ser_schema(write, info_arg=True),
        )


def accepts(row: type[BaseModel], values: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether a model of rows takes these numbers and paths; all of a field at once take a tenth of its time."""
    kinds = _kinds(row).items()
    numbers = (min(values[name], default=math.inf) >= _least(row, name) for name, kind in kinds if kind == "number")
    texts = (
        _are_paths(values[name]) and max(map(len, values[name]), default=0) <= _MOST_LETTERS
        for name, kind in kinds
        if kind == "text"
    )
    return all(numbers) and all(texts)


def _least(row: type[BaseModel], name: str) -> int:
    """Return the smallest number that a model of rows takes for a field."""
    return max((getattr(rule, "ge", None) or 0 for rule in row.model_fields[name].metadata), default=0)


def _are_paths(names: Sequence[str]) -> bool:
    """Return whether all paths stay below their root and can be printed."""
    return not names or (not ODD_PART.search("\n".join(names)) and "".join(names).isprintable())


def _stacked(name: str, kind: Kind, tables: Sequence[Table[Any]]) -> dict[str, Array]:
    """Return one field of several tables as a column of its own, with its bounds if it has any."""
    if kind in {"number", "hexadecimal"}:
        return {name: np.concatenate([np.zeros(0, np.uint8), *(table.numbers(name) for table in tables)])}
    parts = [table.lists(name) for table in tables]
    lengths = np.concatenate([np.zeros(0, np.uint64), *(some for _, some in parts)])
    return {
        name: np.concatenate([np.zeros(0, np.uint8), *(flat for flat, _ in parts)]),
        name + _BOUNDS: bounds_of(lengths),
    }


def adjacent(tables: Sequence[Table[Any]]) -> range | None:
    """Return the place of tables that follow each other in the same columns; None if they do not."""
    place: range | None = None
    for table in tables:
        if table.columns is not tables[0].columns or not isinstance(table.chosen, range) or table.chosen.step != 1:
            return None
        if place is not None and table.chosen.start != place.stop:
            return None
        place = range(place.start if place is not None else table.chosen.start, table.chosen.stop)
    return place


class StoredColumns(Mapping[str, Array]):
    """Columns in a file of NumPy arrays (npz), each read and checked at its first use.

    Parameters
    ----------
    path
        The file.
    rows
        Number of rows.
    digests
        SHA-256 of each column.
    remedy
        What to do about damage.
    """

    def __init__(self, path: Path, rows: int, digests: Mapping[str, str], remedy: str) -> None:
        self._path, self._rows, self._digests, self._remedy = path, rows, digests, remedy
        self._row: type[BaseModel] = BaseModel
        self._loaded: dict[str, Array] = {}
        self.noted: tuple[bytes, str] | None = None
        """The digest of the content of a model with all its tables here, and its text around them."""

    def table(self, row: type[Row], first_row: int, rows: int) -> Table[Row]:
        """Return a part of the file.

        Raises
        ------
        DatasetError
            If the file has fewer rows.
        """
        if not 0 <= first_row <= first_row + rows <= self._rows:
            raise self._damaged("rows", f"{first_row} to {first_row + rows}", f"at most {self._rows}")
        self._row = row
        return Table(row, self, range(first_row, first_row + rows))

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns."""
        return iter(self._digests)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._digests)

    def __getitem__(self, name: str) -> Array:
        """Return a column."""
        if name not in self._loaded:
            self._loaded[name] = self._checked(name, self._read(name))
        return self._loaded[name]

    def _read(self, name: str) -> Array:
        try:
            regular_bytes(self._path)
            with np.load(self._path) as arrays:
                array: Array = arrays[name]
        except OSError as error:
            words = f"cannot be read ({error.strerror or error}), expected the table of the files"
            raise DatasetError(f"{self._path}: {words}; {self._remedy}") from error
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise self._damaged(name, " ".join(str(error).split()), "an array") from error
        found, expected = column_digest(array), self._digests.get(name, "none")
        if found != expected:
            raise self._damaged(name, f"SHA-256 {found[:12]}", f"{expected[:12]} as it was written")
        return array

    def _checked(self, name: str, array: Array) -> Array:
        """Check what the model of the rows would check."""
        field = name.removesuffix(_BOUNDS)
        kind, bounds = _kinds(self._row).get(field), name != field
        if kind is None or array.ndim != 1 or array.dtype.kind != "u":
            raise self._damaged(name, f"{array.dtype} of shape {array.shape}", "a column of unsigned numbers")
        if (bounds or kind in {"number", "hexadecimal"}) and len(array) != self._rows + bounds:
            raise self._damaged(name, f"{len(array)} values", f"{self._rows + bounds}")
        if bounds and (array[0] != 0 or np.any(array[1:] < array[:-1])):
            raise self._damaged(name, "falling bounds", "rising ones from 0")
        if kind in {"text", "numbers"} and not bounds and self[field + _BOUNDS][-1] != len(array):
            raise self._damaged(name, f"{len(array)} values", "as many as its bounds say")
        if kind == "number" and len(array) and array.min() < (least := _least(self._row, field)):
            raise self._damaged(name, f"{array.min()}", f"at least {least}")
        if kind == "text" and not bounds:
            self._require_paths(name, array)
        return array

    def _require_paths(self, name: str, letters: Array) -> None:
        """Check that all paths stay below their root and can be printed."""
        found = Table(self._row, {name: letters, name + _BOUNDS: self[name + _BOUNDS]}, range(self._rows))
        for start in range(0, self._rows, BLOCK):
            names = found[start : start + BLOCK].texts(name)
            if not _are_paths(names):
                raise self._damaged(name, "a path that is absolute, unprintable or has '..'", "relative paths")
            if max(map(len, names)) > _MOST_LETTERS:
                raise self._damaged(name, f"a path of {max(map(len, names))} letters", f"at most {_MOST_LETTERS}")

    def _damaged(self, name: str, found: str, expected: str) -> DatasetError:
        words = DAMAGED(column=name, found=found, expected=expected, remedy=self._remedy)
        return DatasetError(at(str(self._path), words))
