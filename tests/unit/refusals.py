"""Looks at the code and the facts of an error, or of words that were written down; never at the sentence itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hpcai.core.errors import ConfigError, HpcaiError
from hpcai.core.messages import Message, Said


@contextmanager
def refused(error: type[HpcaiError], message: Message, **facts: object) -> Iterator[pytest.ExceptionInfo[HpcaiError]]:
    """Expect an error that says ``message``, with at least these facts."""
    with pytest.raises(error) as caught:
        yield caught
    assert caught.value.code == message.code, f"found {caught.value.code!r}: {caught.value}"
    assert facts.items() <= caught.value.facts.items(), caught.value.facts


@contextmanager
def wrong_setting(place: str, message: Message, found: str | None = None, **facts: object) -> Iterator[None]:
    """Expect that what is set at a place that ends so is refused, and that ``message`` says what is allowed there."""
    with pytest.raises(ConfigError) as caught:
        yield
    _, *problems = caught.value.args[0].parts
    (problem,) = [one for one in problems if str(one.facts["place"]).endswith(place)]
    allowed = problem.facts["allowed"]
    assert isinstance(allowed, Said), f"plain words: {problem}"
    assert allowed.code == message.code, f"found {allowed.code!r}: {problem}"
    assert facts.items() <= allowed.facts.items(), allowed.facts
    assert found in {None, problem.facts["found"]}, problem


def told(text: str, message: Message) -> dict[str, str]:
    """Return the facts of ``message`` in ``text``, which has to hold it."""
    facts = message.find_in(text)
    assert facts is not None, f"{message.code} is not in: {text}"
    return facts
