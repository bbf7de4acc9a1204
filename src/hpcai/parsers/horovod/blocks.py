"""A Horovod timeline of any size as a sequence of blocks of events, read by two threads in constant memory."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hpcai.errors import ParseError
from hpcai.parsers.horovod.events import BOUNDARY, NO_JSON, Dictionary, Ending, Events, no_events
from hpcai.parsers.horovod.scan import MARGIN, scan_block
from hpcai.parsers.identify import looks_like

TOOL = "a Horovod timeline"
BLOCK_BYTES = 1 << 20
LONGEST_EVENT = 1 << 16
"""A block begins with the first event of its range; an event that is longer than this is damage."""
THREADS = 2
ADVICE = "set HOROVOD_TIMELINE to a file that rank 0 can write, and keep what rank 0 wrote"


def check_head(path: Path) -> int:
    """Return the size of a timeline [byte] after a look at its first bytes.

    Raises
    ------
    ParseError
        If the file is missing, empty, no timeline, or one in which nothing was recorded.
    """
    try:
        size_bytes = path.stat().st_size if path.is_file() else 0
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
    waiting: deque[Future[Events]] = deque()
    with path.open("rb") as stream, ThreadPoolExecutor(THREADS) as threads:
        for offset in range(0, size_bytes, BLOCK_BYTES):
            waiting.append(threads.submit(_read_block, stream.fileno(), offset, size_bytes, dictionary))
            if len(waiting) > THREADS + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _read_block(descriptor: int, offset: int, size_bytes: int, dictionary: Dictionary) -> Events:
    """Read one block: from the first event in its range up to the first event in the next one."""
    wanted = min(BLOCK_BYTES + LONGEST_EVENT, size_bytes - offset)
    buffer = bytearray((wanted + 2 * MARGIN + 7) // 8 * 8)
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
    """Return where the first event at or behind a place begins, or the place where there is none."""
    found = BOUNDARY.search(buffer, start, min(stop, start + LONGEST_EVENT))
    return found.end() if found else start


def _close(buffer: bytearray, low: int, stop: int) -> tuple[int, Ending]:
    """Put a comma behind the last event; return the place behind the comma, and how the file ends.

    Up to Horovod 0.20.0 a comma and a line end follow every event; later ones close the list after each.
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
