"""Text of a Horovod timeline as 8-byte words: numbers and repeated texts of many events at once, without a loop."""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]
Codes = NDArray[np.int32]

UNKNOWN, REFUSED = -1, -2
"""A text that was not seen before, and one that the format does not have."""
LONGEST_NUMBER = 16
"""Digits; a monotonic clock in microseconds has 13 to 14."""
MOST_TEXTS = 1 << 16
"""Names, ranks and shapes of one file; beyond that the file is no timeline, and nothing more is learnt."""

_WORD = np.uint64(64)
_ZEROS, _HIGH, _OVER = (np.uint64(int(digit * 8, 16)) for digit in ("30", "80", "76"))
_PAIRS, _QUADS, _ALL = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_MIX = tuple(np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
_KEEP = np.array([2**64 - 2 ** (64 - 8 * min(digits, 8)) for digits in range(LONGEST_NUMBER + 1)], np.uint64)
"""Which bytes of a word belong to a number of so many digits that ends with it."""
_KEEP_HIGH = np.concatenate([_KEEP[:1].repeat(8), _KEEP[: LONGEST_NUMBER - 7]])


def word(text: bytes) -> np.uint64:
    """Return eight bytes as they are seen through `words_of`."""
    return np.uint64(int.from_bytes(text, "little"))


class Text:
    """A block of text, of which the eight bytes that begin at many places can be taken at once.

    Attributes
    ----------
    buffer
        The text; its length is a multiple of 8.
    letters
        Its bytes.
    """

    def __init__(self, buffer: bytearray) -> None:
        self.buffer = buffer
        self.letters = np.frombuffer(buffer, np.uint8)
        self._aligned = np.frombuffer(buffer, "<u8")
        self._following = self._aligned[1:]

    def words(self, places: Places) -> Words:
        """Return the eight bytes that begin at each place; two aligned words are faster than one that is not."""
        index = places >> 3
        shift = ((places & 7) << 3).view(np.uint64)
        low = self._aligned.take(index, mode="clip")
        low >>= shift
        high = self._following.take(index, mode="clip")
        np.subtract(_WORD, shift, out=shift)
        high <<= shift  # NumPy defines a shift by 64 bits as 0
        low |= high
        return low

    def numbers(self, first: Places, behind: Places) -> tuple[Places, NDArray[np.bool_]]:
        """Return decimal numbers and which of them are well-formed.

        Parameters
        ----------
        first, behind
            Places of the first digits, and behind the last ones; 16 bytes must precede every number.
        """
        length = behind - first
        good = (length > 0) & (length <= LONGEST_NUMBER)
        value, bad = _eight_digits(self.words(behind - 8), _KEEP.take(length, mode="clip"))
        if int(length.max(initial=0)) > 8:
            high, high_bad = _eight_digits(self.words(behind - 16), _KEEP_HIGH.take(length, mode="clip"))
            high *= np.uint64(100_000_000)
            value += high
            bad |= high_bad
        if bad.any():
            good &= bad == 0
        leading_zero = self.letters.take(first, mode="clip") == 48
        if leading_zero.any():
            good &= ~(leading_zero & (length > 1))
        return value.view(np.int64), good


def _eight_digits(text: Words, keep: Words) -> tuple[Words, Words]:
    """Return the value of up to eight digits at the end of each word, and bits where a byte is no digit."""
    text ^= _ZEROS
    text &= keep
    bad = text + _OVER
    bad |= text
    bad &= _HIGH
    for factor, shift, mask in ((10, 8, _PAIRS), (100, 16, _QUADS), (10_000, 32, _ALL)):
        other = text >> np.uint64(shift)
        text *= np.uint64(factor)
        text += other
        text &= mask
    return text, bad


def mix_texts(text: Text, first: Places, behind: Places) -> Words:
    """Return one number per text of at least eight bytes, made of all its bytes.

    The words of a text overlap at its end, so nothing that follows it takes part.
    """
    length = behind - first
    mixed = length.astype(np.uint64)
    last = behind - 8
    for number in range(-(-int(length.max(initial=0)) // 8)):
        place = first + 8 * number
        mixed ^= text.words(np.minimum(place, last, out=place))
        mixed *= _MIX[number % 2]
        mixed ^= mixed >> np.uint64(29)
    return mixed


class Texts:
    """Texts that repeat, known by their mixed words; several threads may look up and add.

    Attributes
    ----------
    values
        What each code stands for.
    """

    def __init__(self, parse: Callable[[bytes], object | None]) -> None:
        self.values: list[object] = []
        self._parse = parse
        self._codes: dict[object, int] = {}
        self._table: tuple[Words, Codes] = (np.array([2**64 - 1], np.uint64), np.array([REFUSED], np.int32))
        self._lock = threading.Lock()

    def code(self, value: object) -> int:
        """Return the code of a value that was read in another way."""
        with self._lock:
            return self._code(value)

    def _code(self, value: object) -> int:
        if value not in self._codes:
            self._codes[value] = len(self.values)
            self.values.append(value)
        return self._codes[value]

    def find(self, mixed: Words, buffer: bytearray, first: Places, behind: Places) -> Codes:
        """Return the code of each text; those seen for the first time are parsed and kept."""
        codes = self._find(mixed)
        new = np.flatnonzero(codes == UNKNOWN)
        if len(new):
            values, examples = np.unique(mixed[new], return_index=True)
            found = [self._parse(bytes(buffer[first[i] : behind[i]])) for i in new[examples]]
            self._add(values, found)
            codes = self._find(mixed)
        return codes

    def _find(self, mixed: Words) -> Codes:
        known, codes = self._table
        at = np.searchsorted(known, mixed)
        at[at == len(known)] = 0
        return np.where(known[at] == mixed, codes[at], np.int32(UNKNOWN))

    def _add(self, mixed: Words, found: list[object | None]) -> None:
        with self._lock:
            known, codes = self._table
            if len(known) + len(mixed) > MOST_TEXTS:
                return
            new = np.array([REFUSED if value is None else self._code(value) for value in found], np.int32)
            fresh = ~np.isin(mixed, known)
            known, codes = np.concatenate([known, mixed[fresh]]), np.concatenate([codes, new[fresh]])
            order = np.argsort(known)
            self._table = known[order], codes[order]
