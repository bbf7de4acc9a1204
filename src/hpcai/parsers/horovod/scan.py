"""Events of a Horovod timeline from a block of text: by NumPy where they have the writer's layout, else one by one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.parsers.horovod.events import (
    END,
    LARGEST_TENSOR,
    MARK,
    NO_CODE,
    NO_KIND,
    NO_TENSOR,
    PHASES,
    READY,
    Dictionary,
    Events,
)
from hpcai.parsers.horovod.exact import Exact, read_exactly
from hpcai.parsers.horovod.words import Codes, Places, Text, mix_texts, word

MARGIN = 24
"""Bytes kept free before and behind the text, so that every word of it can be read."""

_COMMA, _BRACE, _BLANK, _T = b",} t"
_TIME, _TENSOR, _NAMED = word(b', "ts": '), word(b', "pid":'), word(b', "name"')
_END, _ANY = word(b'ph": "E"'), word(b'ph": "\0"')
_OPEN, _OPEN_LINE = word(b',{"ph": '), word(b',\n{"ph":')
_GLOBAL, _GLOBAL_END = word(b', "s": "'), word(b'": "g"},')
_LASTS, _LASTS_END = word(b', "dur":'), word(b'ur": 0},')
_WITHOUT_LETTER = ~word(b"\0\0\0\0\0\0\xff\0")
_LETTER = np.uint64(48)
_KINDS = np.full(256, NO_KIND, np.uint8)
_KINDS[[ord(letter) for letter in PHASES]] = list(PHASES.values())
_LONGEST_NAME, _LONGEST_RESULT = 64, 128
Flags = NDArray[np.bool_]


def scan_block(buffer: bytearray, low: int, high: int, origin: int, dictionary: Dictionary) -> Events:
    """Return the events in ``buffer[low:high]``, which begins with an event and ends with the comma behind one.

    Parameters
    ----------
    buffer
        Text with `MARGIN` bytes to spare on both sides; the byte before ``low`` is a comma, and zeros follow ``high``.
    low, high
        Where the text is.
    origin
        Place of ``buffer[0]`` in the file, for reasons.
    dictionary
        Names and results; new ones are added.
    """
    events, starts, ends = _scan(Text(buffer), low, high, dictionary)
    behind, before = np.append(low - 1, ends), np.append(starts, high - 1)
    holes = np.flatnonzero(before > behind)
    read: list[Exact] = [
        read_exactly(bytes(buffer[behind[i] + 1 : before[i] + 1]), origin + int(behind[i]) + 1, dictionary)
        for i in holes
    ]
    return _merge(events, holes, read) if read else events


@dataclass
class _Found:
    """Events in the making: places of the commas that delimit their parts, and whether all is well so far."""

    text: Text
    before: Places
    letter_end: Places
    time: Places
    time_end: Places
    tensor_end: Places
    behind: int
    good: Flags

    def following(self, rows: Places) -> Places:
        """Return the commas before the events that follow some events."""
        return np.append(self.before, self.behind).take(rows + 1)


def _scan(text: Text, low: int, high: int, dictionary: Dictionary) -> tuple[Events, Places, Places]:
    """Return the events in the writer's own layout, and the places of the commas before and behind each."""
    found, plain = _find_events(text, low, high)
    named = np.flatnonzero(~plain)
    parts = (found.letter_end.take(named), found.time.take(named), found.good.take(named))
    kinds = np.full(len(plain), END, np.uint8)
    codes = np.full(len(plain), NO_CODE, np.int32)
    kinds[named], codes[named], found.good[named] = _read_names(text, *parts, dictionary)
    times, fits = text.numbers(found.time + 8, found.time_end)
    found.good &= fits
    ends = found.tensor_end.copy()
    number_ends = found.tensor_end - 1
    longer = np.flatnonzero(text.letters.take(number_ends, mode="clip") != _BRACE)
    number_ends[longer] += 1
    first, following = found.tensor_end.take(longer), found.following(longer)
    codes[longer], ends[longer], fits = _read_rest(text, first, following, kinds[longer], codes[longer], dictionary)
    found.good[longer] &= fits
    tensors, fits = text.numbers(found.time_end + 9, number_ends)
    fits &= text.letters.take(found.time_end + 8, mode="clip") == _BLANK
    heads = text.words(found.time_end)
    fits &= (heads == _TENSOR) & (tensors < LARGEST_TENSOR)
    marks = np.flatnonzero(kinds == MARK)
    fits[marks] = (heads[marks] == _GLOBAL) & (text.words(found.time_end[marks] + 4) == _GLOBAL_END)
    tensors[marks] = NO_TENSOR
    found.good &= fits
    events, good = Events(kinds, times, tensors.astype(np.int32), codes), found.good
    if good.all():
        return events, found.before, ends
    events = Events(kinds[good], times[good], events.tensors[good], codes[good])
    return events, found.before[good], ends[good]


def _find_events(text: Text, low: int, high: int) -> tuple[_Found, Flags]:
    """Return where there is a time that may belong to an event, and where that is an event without a name."""
    commas = np.flatnonzero(text.letters[low - 1 : high] == _COMMA)
    commas += low - 1
    commas = np.concatenate([[low - 1], commas, np.full(3, high)])
    at = np.flatnonzero(text.letters.take(commas + 3, mode="clip") == _T)
    time = commas.take(at)
    letters = text.words(time - 8)
    plain = letters == _END
    first = at - 2
    first += plain
    before = commas.take(first)
    letter_end = commas.take(first + 1)
    distance = letter_end - before
    opening = text.words(before)
    good = (distance == 11) & (opening == _OPEN)
    if not good.all():
        good |= (distance == 12) & (opening == _OPEN_LINE)
    good &= text.words(time) == _TIME
    behind = int(commas[len(commas) - 4])
    found = _Found(text, before, letter_end, time, commas.take(at + 1), commas.take(at + 2), behind, good)
    return found, plain


def _read_names(
    text: Text, first: Places, behind: Places, good: Flags, dictionary: Dictionary
) -> tuple[NDArray[np.uint8], Codes, Flags]:
    """Return kinds and names of the events that have one, and which of them are well-formed."""
    letters = text.words(first - 8)
    good = good & ((letters & _WITHOUT_LETTER) == _ANY) & (text.words(first) == _NAMED)
    letters >>= _LETTER
    letters &= np.uint64(0xFF)
    kinds = _KINDS.take(letters.view(np.int64))
    length = behind - first
    good &= (length >= 13) & (length <= _LONGEST_NAME) & (kinds != NO_KIND)
    mixed = mix_texts(text, np.where(good, np.minimum(first + 8, behind - 8), 0), np.where(good, behind, 8))
    mixed ^= letters
    codes = dictionary.names.find(mixed, text.buffer, first - 2, behind)
    return kinds, codes, good & (codes >= 0)


def _read_rest(
    text: Text, first: Places, following: Places, kinds: NDArray[np.uint8], codes: Codes, dictionary: Dictionary
) -> tuple[Codes, Places, Flags]:
    """Return codes and ends of the events in which more follows the tensor, and which are well-formed."""
    ready, result = kinds == READY, kinds == END
    ends = np.where(result, following, first + 11)
    fits = ready & (text.words(first) == _LASTS) & (text.words(first + 4) == _LASTS_END)
    length = ends - first
    usable = result & (length >= 16) & (length <= _LONGEST_RESULT)
    rows = np.flatnonzero(usable)
    mixed = mix_texts(text, first[rows], ends[rows])
    codes[rows] = dictionary.results.find(mixed, text.buffer, first[rows], ends[rows])
    fits |= usable & (codes >= 0)
    return codes, ends, fits


def _merge(fast: Events, holes: Places, read: list[Exact]) -> Events:
    """Return all events of a block in order: those of each hole before the event that follows it."""
    counts = np.array([len(part.events) for part in read])
    rows = np.array([row for part in read for row in part.events], np.int64).reshape(-1, 4)
    where = np.repeat(holes, counts)
    merged = Events(
        np.insert(fast.kinds, where, rows[:, 0]),
        np.insert(fast.times_us, where, rows[:, 1]),
        np.insert(fast.tensors, where, rows[:, 2]),
        np.insert(fast.codes, where, rows[:, 3]),
    )
    before = 0
    for hole, part, count in zip(holes, read, counts, strict=True):
        for gap in part.gaps:
            gap.before += int(hole) + before
        before += int(count)
        merged.gaps += part.gaps
        merged.tensor_names += part.tensor_names
        merged.metadata += part.metadata
        merged.start_epoch_us = part.start_epoch_us if merged.start_epoch_us is None else merged.start_epoch_us
    return merged
