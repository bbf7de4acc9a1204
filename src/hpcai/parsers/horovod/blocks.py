"""Read a Horovod timeline of any size as blocks of events, in constant memory and on several cores."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

from hpcai.core.errors import ParseError
from hpcai.core.files import regular_bytes
from hpcai.parsers.horovod.events import BOUNDARY, END, NO_CODE, NO_JSON, Dictionary, Ending, Events, no_events
from hpcai.parsers.horovod.scan import MARGIN, scan_block
from hpcai.parsers.horovod.words import Codes, Texts
from hpcai.parsers.identify import looks_like
from hpcai.parsers.workers import MOST_WORKERS, Worker, usable_cores

TOOL = "a Horovod timeline"
BLOCK_BYTES = 1 << 20
LONGEST_EVENT = 1 << 16
"""Maximum length of an event [byte]. A block begins with the first event in its range; a longer event is damage."""
LARGE_BYTES = 16 << 20
"""A smaller file is read before other processes have started."""
ADVICE = "set HOROVOD_TIMELINE to a file that rank 0 can write, and keep what rank 0 wrote"


def check_head(path: Path) -> int:
    """Check the first bytes of a timeline and return its size [byte].

    Raises
    ------
    ParseError
        If the file is missing, empty, no timeline, or without recorded events.
    """
    try:
        size_bytes = regular_bytes(path)
        with path.open("rb") as stream:
            head = stream.read(LONGEST_EVENT)
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}, expected {TOOL}; {ADVICE}") from error
    text = head.strip()
    if text in (b"[", b"[]"):
        raise ParseError(f"{path}: found an opened list without events, expected {TOOL}; nothing recorded: {ADVICE}")
    if not (text.startswith(b"[") and text[1:].lstrip().startswith(b"{") and b'"ph"' in text):
        raise ParseError(f"{path}: found {looks_like(path)}, expected {TOOL}; {ADVICE}")
    return size_bytes


def read_blocks(path: Path, dictionary: Dictionary) -> Iterator[Events]:
    """Yield the events of a file block by block, in order.

    Parameters
    ----------
    path
        The timeline.
    dictionary
        Names and results; new ones are added.

    Raises
    ------
    ParseError
        As `check_head`.
    """
    size_bytes = check_head(path)
    offsets = range(0, size_bytes, BLOCK_BYTES)
    with path.open("rb") as stream:

        def read(offset: int) -> Events:
            return _read_block(stream.fileno(), offset, size_bytes, dictionary)

        yield read(0)
        workers = count_workers(size_bytes)
        yield from _read_together(read, offsets[1:], workers, dictionary) if workers else map(read, offsets[1:])


def count_workers(size_bytes: int) -> int:
    """Return how many other processes read a file of that size; none on one core, where they only cost time."""
    cores = usable_cores()
    return min(cores, MOST_WORKERS) if cores > 1 and size_bytes >= LARGE_BYTES else 0


@dataclass
class _Report:
    """Events of a block from another process, and its dictionary additions for them."""

    events: Events
    names: list[object]
    results: list[object]


class _Translation:
    """Maps another process's codes to this one's; codes from before the fork are equal."""

    def __init__(self, texts: Texts) -> None:
        self._texts, self._codes = texts, list(range(len(texts.values)))
        self.differs = False

    def learn(self, added: list[object]) -> None:
        """Add the texts that the other process learned."""
        for value in added:
            code = self._texts.code(value)
            self.differs |= code != len(self._codes)
            self._codes.append(code)

    def translate(self, codes: Codes) -> Codes:
        """Return codes of this process; -1 stays -1."""
        return np.array([*self._codes, NO_CODE], np.int32).take(codes, mode="wrap")


def _read_together(
    read: Callable[[int], Events], offsets: Sequence[int], count: int, dictionary: Dictionary
) -> Iterator[Events]:
    """Yield blocks that other processes read in turn; read here any block that one fails to deliver."""
    with ExitStack() as stack:
        workers = [
            (
                stack.enter_context(Worker(_report(read, offsets[number::count], dictionary))),
                _Translation(dictionary.names),
                _Translation(dictionary.results),
            )
            for number in range(count)
        ]
        for offset, (worker, names, results) in zip(offsets, cycle(workers), strict=False):
            report = worker.receive()
            if not isinstance(report, _Report):
                yield read(offset)
                continue
            events = report.events
            names.learn(report.names)
            results.learn(report.results)
            if names.differs or results.differs:
                of_name, of_result = names.translate(events.codes), results.translate(events.codes)
                events.codes = np.where(events.kinds == END, of_result, of_name)
            yield events


def _report(read: Callable[[int], Events], offsets: Sequence[int], dictionary: Dictionary) -> Iterator[_Report]:
    names, results = dictionary.names.values, dictionary.results.values
    for offset in offsets:
        known = len(names), len(results)
        yield _Report(read(offset), names[known[0] :], results[known[1] :])


def _read_block(descriptor: int, offset: int, size_bytes: int, dictionary: Dictionary) -> Events:
    """Read one block: from the first event in its range to the first event of the next range."""
    wanted = min(BLOCK_BYTES + LONGEST_EVENT, size_bytes - offset)
    buffer = bytearray(wanted + 2 * MARGIN)
    stop = MARGIN + os.preadv(descriptor, [memoryview(buffer)[MARGIN : MARGIN + wanted]], offset)
    low = _boundary(buffer, MARGIN, stop) if offset else buffer.index(b"{", MARGIN)
    is_last = offset + BLOCK_BYTES >= size_bytes
    ending = Ending.UNKNOWN
    if is_last:
        high, ending = _close(buffer, low, stop)
    else:
        high = _boundary(buffer, MARGIN + BLOCK_BYTES, stop)
    buffer[low - 1] = ord(",")
    buffer[high:] = bytes(len(buffer) - high)
    events = scan_block(buffer, low, high, offset - MARGIN, dictionary) if high > low else no_events()
    events.ending = ending
    if is_last and events.gaps and events.gaps[-1].before == len(events.kinds) and events.gaps[-1].reason == NO_JSON:
        events.gaps[-1].reason = "the end of the file within an event"
    return events


def _boundary(buffer: bytearray, start: int, stop: int) -> int:
    """Return the start of the first event at or after a position, or the position if there is none."""
    found = BOUNDARY.search(buffer, start, min(stop, start + LONGEST_EVENT))
    return found.end() if found else start


def _close(buffer: bytearray, low: int, stop: int) -> tuple[int, Ending]:
    """Add a comma after the last event; return the position after the comma, and how the file ends.

    Up to Horovod 0.20.0 a comma and a line end follow each event; later versions close the list after each.
    """
    whole = bytes(buffer[low:stop])
    text = whole.rstrip()
    ending = Ending.AFTER_EVENT if whole.endswith(b",\n") else Ending.CUT
    if text.endswith(b"]"):
        text, ending = text[:-1].rstrip(), Ending.CLOSED
    else:
        text = text.removesuffix(b",")
    buffer[low + len(text)] = ord(",")
    return (low + len(text) + 1 if text else low), ending
