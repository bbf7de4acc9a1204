"""Scan a block of Horovod timeline text: with NumPy where the writer's layout holds, otherwise event by event."""

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
from hpcai.parsers.horovod.words import LONGEST_TEXT, Codes, Places, Text, Words, mix_texts, read_numbers, word

MARGIN = LONGEST_TEXT + 24
"""Spare bytes before and after the text, so that words at every position can be read."""

_COMMA, _BRACE, _BLANK, _T = b",} t"
_TIME, _TENSOR, _NAMED = word(b', "ts": '), word(b', "pid":'), word(b', "name"')
_END, _ANY = word(b'ph": "E"'), word(b'ph": "\0"')
_OPENINGS = ((11, np.uint64(40), word(b',{"')), (12, np.uint64(32), word(b',\n{"')))
"""Text before the phase: distance to the comma after the phase, shift that drops foreign bits, and bytes."""
_GLOBAL, _GLOBAL_END = word(b', "s": "'), word(b'g"},')
_LASTS, _LASTS_END = word(b', "dur":'), word(b" 0},")
_FIRST, _FOUR = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
_WITHOUT_LETTER = ~word(b"\0\0\0\0\0\0\xff\0")
_LETTER, _BYTE = np.uint64(48), np.uint64(8)
_KINDS = np.full(256, NO_KIND, np.uint8)
_KINDS[[ord(letter) for letter in PHASES]] = list(PHASES.values())
_LONGEST_NAME, _LONGEST_RESULT, _LONGEST_TENSOR = 64, LONGEST_TEXT, 10
Flags = NDArray[np.bool_]


def scan_block(buffer: bytearray, low: int, high: int, origin: int, dictionary: Dictionary) -> Events:
    """Return the events in ``buffer[low:high]``, from the start of an event to the comma after one.

    Parameters
    ----------
    buffer
        Text with `MARGIN` spare bytes on both sides; the byte before ``low`` is a comma, and zeros follow ``high``.
    low, high
        Extent of the text.
    origin
        Offset of ``buffer[0]`` in the file, for reasons.
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
    """Events being decoded: positions of the commas between their parts, and which are well-formed so far.

    `words` start 16 bytes before the comma that precedes the time.
    """

    words: Words
    before: Places
    letter_end: Places
    time: Places
    time_end: Places
    tensor_end: Places
    behind: int
    good: Flags

    def following(self, rows: Places) -> Places:
        """Return the commas before the successors of some events."""
        return np.append(self.before, self.behind).take(rows + 1)


def _scan(text: Text, low: int, high: int, dictionary: Dictionary) -> tuple[Events, Places, Places]:
    """Return the events in the writer's own layout, and the commas before and after each."""
    found, plain = _find_events(text, low, high)
    named = np.flatnonzero(~plain)
    parts = (found.before.take(named), found.letter_end.take(named), found.time.take(named), found.good.take(named))
    kinds = np.full(len(plain), END, np.uint8)
    codes = np.full(len(plain), NO_CODE, np.int32)
    kinds[named], codes[named], found.good[named] = _read_names(text, *parts, dictionary)
    times, fits = read_numbers(found.words[:, 3], found.words[:, 4], found.time_end - found.time - 8)
    found.good &= fits
    ends = found.tensor_end.copy()
    number_ends = found.tensor_end - 1
    longer = np.flatnonzero(text.letters.take(number_ends) != _BRACE)
    number_ends[longer] += 1
    first, following = found.tensor_end.take(longer), found.following(longer)
    codes[longer], ends[longer], fits = _read_rest(text, first, following, kinds[longer], codes[longer], dictionary)
    found.good[longer] &= fits
    tensors, fits = _read_tensors(text, found.time_end, number_ends, kinds)
    found.good &= fits
    events, good = Events(kinds, times, tensors, codes), found.good
    if good.all():
        return events, found.before, ends
    events = Events(kinds[good], times[good], tensors[good], codes[good])
    return events, found.before[good], ends[good]


def _find_events(text: Text, low: int, high: int) -> tuple[_Found, Flags]:
    """Return positions of possible event times, and which of them belong to an event without a name."""
    commas = np.flatnonzero(text.letters[low - 1 : high] == _COMMA)
    commas += low - 1
    commas = np.concatenate([[low - 1], commas, np.full(3, high)])
    at = np.flatnonzero(text.letters[3:].take(commas) == _T)
    time = commas.take(at)
    words = text.words(time - 16, 5)
    plain = words[:, 1] == _END
    first = at - 2
    first += plain
    before = commas.take(first)
    good = words[:, 2] == _TIME
    good &= _opens(words[:, 0], time - before, ~plain)
    behind = int(commas[len(commas) - 4])
    found = _Found(words, before, commas.take(first + 1), time, commas.take(at + 1), commas.take(at + 2), behind, good)
    return found, plain


def _opens(words: Words, distance: Places, otherwise: Flags) -> Flags:
    """Return where an event begins at a distance from the comma after its phase, or where that does not matter.

    The words end eight bytes before that comma.
    """
    (near, shift, opening), (far, shift_line, opening_line) = _OPENINGS
    opens: Flags = (distance == near) & (words >> shift == opening) | otherwise
    if not opens.all():
        opens |= (distance == far) & (words >> shift_line == opening_line)
    return opens


def _read_names(
    text: Text, before: Places, first: Places, behind: Places, good: Flags, dictionary: Dictionary
) -> tuple[NDArray[np.uint8], Codes, Flags]:
    """Return kinds and names of the named events, and which are well-formed."""
    words = text.words(first - 16, 3)
    letters = words[:, 1]
    good = good & _opens(words[:, 0], first - before, ~good)
    good &= ((letters & _WITHOUT_LETTER) == _ANY) & (words[:, 2] == _NAMED)
    letters = (letters >> _LETTER) & _FIRST
    kinds = _KINDS.take(letters.view(np.int64))
    length = behind - first
    good &= (length >= 13) & (length <= _LONGEST_NAME) & (kinds != NO_KIND)
    mixed = mix_texts(text, np.where(good, first + 8, 0), np.where(good, behind, 0))
    mixed ^= letters
    codes = dictionary.names.find(mixed, text.buffer, first - 2, behind)
    return kinds, codes, good & (codes >= 0)


def _read_tensors(text: Text, first: Places, behind: Places, kinds: NDArray[np.uint8]) -> tuple[Codes, Flags]:
    """Return tensor numbers and which are well-formed; marks have other text there and no tensor."""
    words = text.words(first, 3)
    start, length = words[:, 1], behind - first - 9
    tensors, fits = read_numbers((start >> _BYTE) | (words[:, 2] << np.uint64(56)), words[:, 2] >> _BYTE, length)
    fits &= (words[:, 0] == _TENSOR) & (start & _FIRST == _BLANK)
    fits &= (length <= _LONGEST_TENSOR) & (tensors < LARGEST_TENSOR)
    marks = np.flatnonzero(kinds == MARK)
    fits[marks] = (words[marks, 0] == _GLOBAL) & (start[marks] & _FOUR == _GLOBAL_END)
    tensors[marks] = NO_TENSOR
    return tensors.astype(np.int32), fits


def _read_rest(
    text: Text, first: Places, following: Places, kinds: NDArray[np.uint8], codes: Codes, dictionary: Dictionary
) -> tuple[Codes, Places, Flags]:
    """Return codes and ends of the events with content after the tensor, and which are well-formed."""
    ready, result = kinds == READY, kinds == END
    ends = np.where(result, following, first + 11)
    words = text.words(first, 2)
    fits = ready & (words[:, 0] == _LASTS) & (words[:, 1] & _FOUR == _LASTS_END)
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
