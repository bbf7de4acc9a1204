"""The events of a Horovod timeline as arrays, and the texts that repeat in them."""

import re
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from hpcai.parsers.horovod.words import Codes, Places, Texts

BEGIN, END, READY, MARK = range(4)
"""Kinds of events: phases B, E, X (a rank is ready) and i (a cycle begins)."""
PHASES = {"B": BEGIN, "E": END, "X": READY, "i": MARK}
NO_KIND, NO_TENSOR, NO_CODE = 255, -1, -1
LARGEST_TENSOR = 2**31
NO_JSON = "text that is not JSON"
BOUNDARY = re.compile(rb"\},\s*(?=\{)")
"""Where one event ends and the next begins."""

_NAME = re.compile(rb'(?:B", "name": "([A-Z][A-Z0-9_]*)|X", "name": "(\d+)|i", "name": "(CYCLE_START))"')
_RESULT = re.compile(rb', "args": \{"dtype": "([a-z0-9]+)", "shape": "\[((?:\d+(?:, \d+)*)?)\]"\}\}')


class Ending(Enum):
    """How a file ends: with a closed list, with the comma and line end behind an event, or otherwise."""

    UNKNOWN, CLOSED, AFTER_EVENT, CUT = range(4)


@dataclass
class Gap:
    """Something between two events that is not an event.

    Attributes
    ----------
    before
        Number of events that precede it.
    place
        Byte of the file, or time (us).
    reason
        What it is.
    is_time
        Whether ``place`` is a time.
    around_us
        Times of the events around it.
    """

    before: int
    place: int
    reason: str
    is_time: bool = False
    around_us: tuple[int, int] = (0, 0)


@dataclass
class Events:
    """Events of one block in the order of the file.

    Attributes
    ----------
    kinds, times_us, tensors, codes
        Phase; microseconds; number of the tensor; code of the name (begin, ready, mark) or of the result (end), or -1.
    gaps
        Text that could not be read; ``before`` counts the events that precede it.
    tensor_names, start_epoch_us, metadata
        What metadata say, and the number of their events.
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
    """Return a block without events."""
    return Events(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


def parse_name(text: bytes) -> object | None:
    """Return the name in a piece of an event from its phase on, or None."""
    found = _NAME.fullmatch(text)
    return found[found.lastindex].decode() if found and found.lastindex else None


def parse_result(text: bytes) -> object | None:
    """Return data type and shape in the last piece of an event, or None."""
    found = _RESULT.fullmatch(text)
    return (found[1].decode(), found[2].decode()) if found else None


@dataclass(frozen=True)
class Dictionary:
    """Names and results that were seen in a file so far."""

    names: Texts = field(default_factory=lambda: Texts(parse_name))
    results: Texts = field(default_factory=lambda: Texts(parse_result))
