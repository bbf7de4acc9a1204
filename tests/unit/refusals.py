"""Looks at the code and the facts of an error, or of words that were written down; never at the sentence itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hpcai.core.errors import HpcaiError
from hpcai.core.messages import Message


@contextmanager
def refused(error: type[HpcaiError], message: Message, **facts: object) -> Iterator[None]:
    """Expect an error that says ``message``, with at least these facts."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.code == message.code, f"found {caught.value.code!r}: {caught.value}"
    assert facts.items() <= caught.value.facts.items(), caught.value.facts


def told(text: str, message: Message) -> dict[str, str]:
    """Return the facts of ``message`` in ``text``, which has to hold it."""
    facts = message.find_in(text)
    assert facts is not None, f"{message.code} is not in: {text}"
    return facts
