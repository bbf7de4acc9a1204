"""Streams whose reader may go away, such as `head`: the rest is dropped, and a command still ends with its status."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO


class Dropping:
    """A stream of text that drops what nobody reads any more, instead of ending the command with another status.

    Attributes
    ----------
    is_closed
        Whether the reader is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_closed = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the stream's
        """Return an attribute of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text; return its length, also of one that is dropped."""
        try:
            self._stream.write(text)
        except BrokenPipeError:
            self._drop()
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        """Let the rest go nowhere: what is buffered would fail again, at the latest when Python ends."""
        self.is_closed = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._stream.fileno())
        finally:
            os.close(nowhere)
        with suppress(BrokenPipeError):
            self._stream.flush()


@contextmanager
def dropping_unread(output: TextIO, errors: TextIO) -> Iterator[None]:
    """Drop what is printed in the block after the reader of standard output or error has closed its end."""
    streams = Dropping(output), Dropping(errors)
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            yield
        finally:
            for stream in streams:
                with suppress(OSError):  # a full disk: `main` has told it, or Python tells it at its end
                    stream.flush()


def is_unread(stream: TextIO) -> bool:
    """Return whether the reader of a stream is known to be gone."""
    return isinstance(stream, Dropping) and stream.is_closed
