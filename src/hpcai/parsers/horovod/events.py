"""Events of a Horovod timeline as arrays, and their repeated texts."""

import re
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from hpcai.parsers.horovod.words import Codes, Places, Texts

BEGIN, END, READY, MARK = range(4)
"""Event kinds: phases B, E, X (a rank is ready) and i (a cycle begins)."""
PHASES = {"B": BEGIN, "E": END, "X": READY, "i": MARK}
NO_KIND, NO_TENSOR, NO_CODE = 255, -1, -1
LARGEST_TENSOR = 2**31
NO_JSON = "text that is not JSON"
BOUNDARY = re.compile(rb"\},\s*(?=\{)")
"""Separator between events."""

_NAME = re.compile(rb'(?:B", "name": "([A-Z][A-Z0-9_]*)|X", "name": "(\d+)|i", "name": "(CYCLE_START))"')
_RESULT = re.compile(rb', "args": \{"dtype": "([a-z0-9]+)", "shape": "\[((?:\d+(?:, \d+)*)?)\]"\}\}')


class Ending(Enum):
    """How a file ends: with a closed list, with comma and line end after an event, or otherwise."""

    UNKNOWN, CLOSED, AFTER_EVENT, CUT = range(4)


@dataclass
class Gap:
    """Text between two events that is not an event.

    Attributes
    ----------
    before
        Number of preceding events.
    place
        Byte offset in the file, or time (us).
    reason
        Description of the gap.
    is_time
        Whether ``place`` is a time.
    around_us
        Times of the neighbouring events.
    """

    before: int
    place: int
    reason: str
    is_time: bool = False
    around_us: tuple[int, int] = (0, 0)


@dataclass
class Events:
    """Events of one block in file order.

    Attributes
    ----------
    kinds, times_us, tensors, codes
        Phase; microseconds; number of the tensor; code of the name (begin, ready, mark) or of the result (end), or -1.
    gaps
        Unreadable text; ``before`` counts the preceding events.
    tensor_names, start_epoch_us, metadata
        Contents of the metadata, and the number of metadata events.
    ending
        How the file ends, if this is its last block.
    """

    kinds: NDArray[np.uint8]
    times_us: Places
    tensors: Codes
    codes: Codes
    gaps: list[Gap] = field(default_factory=list)
    tensor_names: list[tuple[int, str]] = field(default_factory=list)
    start_epoch_us: int | None = None
    metadata: int = 0
    ending: Ending = Ending.UNKNOWN


def no_events() -> Events:
    """Return an empty block."""
    return Events(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


def parse_name(text: bytes) -> object | None:
    """Return the name in an event's text from its phase on, or None."""
    found = _NAME.fullmatch(text)
    return found[found.lastindex].decode() if found and found.lastindex else None


def parse_result(text: bytes) -> object | None:
    """Return data type and shape from the last part of an event, or None."""
    found = _RESULT.fullmatch(text)
    return (found[1].decode(), found[2].decode()) if found else None


@dataclass(frozen=True)
class Dictionary:
    """Names and results seen in a file so far."""

    names: Texts = field(default_factory=lambda: Texts(parse_name))
    results: Texts = field(default_factory=lambda: Texts(parse_result))
