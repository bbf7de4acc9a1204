"""Names and paths of half a million files in less memory than lists of them: each is made when it is looked at."""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, overload

from hpcai.data.columns import BLOCK
from hpcai.data.table import Table


class Texts(Sequence[str]):
    """Texts such as names of files, in half of the memory of a list, each made when it is looked at."""

    def __init__(self, letters: bytearray, ends: "array[int]", chosen: range) -> None:
        self._letters, self._ends, self._chosen = letters, ends, chosen

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Texts":
        """Return some texts, even names of files that are no text."""
        letters, ends = bytearray(), array("Q")
        remaining = iter(texts)
        while block := list(islice(remaining, BLOCK)):
            encoded = os.fsencode("".join(block))
            if encoded.isascii():  # a byte per letter
                ends.extend(islice(accumulate(map(len, block), initial=len(letters)), 1, None))
                letters += encoded
                continue
            for text in block:
                letters += os.fsencode(text)
                ends.append(len(letters))
        return cls(letters, ends, range(len(ends)))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._chosen)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> "Texts": ...

    def __getitem__(self, place: int | slice) -> "str | Texts":
        """Return a text, or some."""
        if isinstance(place, slice):
            return Texts(self._letters, self._ends, self._chosen[place])
        index = self._chosen[place]
        start = self._ends[index - 1] if index else 0
        return os.fsdecode(bytes(self._letters[start : self._ends[index]]))


class Paths(Sequence[Path]):
    """The paths of a table's files, each made when it is looked at."""

    def __init__(self, root: Path, table: Table[Any], field: str) -> None:
        self._root, self._table, self._field = root, table, field

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._table)

    @overload
    def __getitem__(self, place: int) -> Path: ...

    @overload
    def __getitem__(self, place: slice) -> "Paths": ...

    def __getitem__(self, place: int | slice) -> "Path | Paths":
        """Return a path, or some."""
        if isinstance(place, slice):
            return Paths(self._root, self._table[place], self._field)
        index = range(len(self))[place]
        return self._root / self._table[index : index + 1].texts(self._field)[0]

    def __iter__(self) -> Iterator[Path]:
        """Yield the paths."""
        for start in range(0, len(self), BLOCK):
            for text in self._table[start : start + BLOCK].texts(self._field):
                yield self._root / text
