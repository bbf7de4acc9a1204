"""Horovod timeline text as 8-byte words: decode numbers and repeated texts of many events at once, without a loop."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]
Codes = NDArray[np.int32]

UNKNOWN, REFUSED = -1, -2
"""Codes of a text not seen before, and of one that the format does not have."""
LONGEST_NUMBER = 16
"""Maximum number of digits; a monotonic clock in microseconds has 13 to 14."""
MOST_TEXTS = 1 << 16
"""Maximum number of names, ranks and shapes per file; beyond that it is not a timeline, and no more are learned."""

_ZEROS, _HIGH, _OVER = (np.uint64(int(digit * 8, 16)) for digit in ("30", "80", "76"))
_PAIRS, _QUADS, _ALL = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_ONE_WORD, _TWO_WORDS, _FIRST = np.uint64(64), np.uint64(128), np.uint64(0xFF)
LONGEST_TEXT = 128
"""Maximum length of a repeated text [byte]; as many bytes must follow every position examined in a block."""
_FACTORS = np.array(
    [pow(0x9E3779B97F4A7C15, 2 * power + 1, 2**64) for power in range(LONGEST_TEXT // 8 + 1)], np.uint64
)
"""Multiplier; odd, so that a difference within one word never vanishes."""
_MASKS = np.array(
    [
        [2 ** (8 * min(max(length - 8 * number, 0), 8)) - 1 for number in range(LONGEST_TEXT // 8)]
        for length in range(LONGEST_TEXT + 1)
    ],
    np.uint64,
)
"""Masks that select the first N bytes of a text's words."""


def word(text: bytes) -> np.uint64:
    """Return eight bytes in the form that `Text.words` returns."""
    return np.uint64(int.from_bytes(text, "little"))


class Text:
    """A block of text whose bytes can be read at many positions at once.

    Attributes
    ----------
    buffer
        The text.
    letters
        Its bytes as an array.
    """

    def __init__(self, buffer: bytearray) -> None:
        self.buffer = buffer
        self.letters = np.frombuffer(buffer, np.uint8)

    def words(self, places: Places, count: int) -> Words:
        """Return the 8-byte words starting at each position, one row per position.

        Copying many bytes at once takes as long as copying eight.
        """
        size_bytes = 8 * count
        windows: NDArray[np.void] = np.ndarray(
            (len(self.buffer) - size_bytes + 1,), f"V{size_bytes}", self.buffer, strides=(1,)
        )
        return windows[places].view("<u8").reshape(-1, count)


def read_numbers(first: Words, second: Words, length: Places) -> tuple[Places, NDArray[np.bool_]]:
    """Return decimal numbers and which of them are well-formed.

    Parameters
    ----------
    first, second
        The first eight bytes of each number, and the next eight.
    length
        Number of digits.
    """
    good = (length > 0) & (length <= LONGEST_NUMBER)
    first = first ^ _ZEROS
    leading_zero = first & _FIRST == 0
    if leading_zero.any():
        good &= ~(leading_zero & (length > 1))
    bits = length.astype(np.uint64)
    bits <<= np.uint64(3)
    low = first << (_ONE_WORD - bits)  # NumPy shifts by 64 or more bits give 0
    if int(length.max(initial=0)) <= 8:
        value, bad = _eight_digits(low)
    else:
        low |= (second ^ _ZEROS) << (_TWO_WORDS - bits)
        low |= first >> (bits - _ONE_WORD)
        value, bad = _eight_digits(low)
        high, high_bad = _eight_digits(first << (_TWO_WORDS - bits))
        high *= np.uint64(100_000_000)
        value += high
        bad |= high_bad
    if bad.any():
        good &= bad == 0
    return value.view(np.int64), good


def _eight_digits(text: Words) -> tuple[Words, Words]:
    """Return the value of eight digits per word, given as differences from 0, and bits that mark non-digits."""
    bad = text + _OVER
    bad |= text
    bad &= _HIGH
    other = np.empty_like(text)
    for factor, shift, mask in ((10, 8, _PAIRS), (100, 16, _QUADS), (10_000, 32, _ALL)):
        np.right_shift(text, np.uint64(shift), out=other)
        text *= np.uint64(factor)
        text += other
        text &= mask
    return text, bad


def mix_texts(text: Text, first: Places, behind: Places) -> Words:
    """Return one hash per text of at most `LONGEST_TEXT` bytes, from all its bytes and its length."""
    length = behind - first
    count = max(-(-int(length.max(initial=0)) // 8), 1)
    words = text.words(first, count)
    words &= _MASKS[:, :count].take(length, axis=0)
    mixed: Words = words @ _FACTORS[:count]
    mixed += length.view(np.uint64) * _FACTORS[-1]
    return mixed


class Texts:
    """Repeated texts, identified by the hash of their words.

    Attributes
    ----------
    values
        The value of each code.
    """

    def __init__(self, parse: Callable[[bytes], object | None]) -> None:
        self.values: list[object] = []
        self._parse = parse
        self._codes: dict[object, int] = {}
        self._table: tuple[Words, Codes] = (np.array([2**64 - 1], np.uint64), np.array([REFUSED], np.int32))

    def code(self, value: object) -> int:
        """Return the code of a value that was parsed elsewhere."""
        if value not in self._codes:
            self._codes[value] = len(self.values)
            self.values.append(value)
        return self._codes[value]

    def find(self, mixed: Words, buffer: bytearray, first: Places, behind: Places) -> Codes:
        """Return the code of each text; parse and store those seen for the first time."""
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
        return np.where(known.take(at) == mixed, codes.take(at), np.int32(UNKNOWN))

    def _add(self, mixed: Words, found: list[object | None]) -> None:
        known, codes = self._table
        if len(known) + len(mixed) > MOST_TEXTS:
            return
        new = np.array([REFUSED if value is None else self.code(value) for value in found], np.int32)
        fresh = ~np.isin(mixed, known)
        known, codes = np.concatenate([known, mixed[fresh]]), np.concatenate([codes, new[fresh]])
        order = np.argsort(known)
        self._table = known[order], codes[order]
