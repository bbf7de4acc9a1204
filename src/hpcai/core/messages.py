"""Messages: reasons and errors are codes with facts and become text at the edge, so rewording a text breaks nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Self


class Said(str):
    """The words of a message, with the code and the facts they were made from; formatting keeps the words alone.

    Attributes
    ----------
    code
        Code of the message, such as ``"scaling.too_few_runs"``; empty for joined messages.
    facts
        Values of the placeholders, with their original types.
    """

    __slots__ = ("_parts", "code", "facts")

    code: str
    facts: dict[str, object]
    _parts: "tuple[str, ...]"

    def __new__(cls, words: str, code: str, facts: dict[str, object], parts: "tuple[str, ...]" = ()) -> Self:
        """Return ``words`` with what they were made from."""
        self = super().__new__(cls, words)
        self.code, self.facts, self._parts = code, facts, parts
        return self

    @property
    def parts(self) -> "tuple[str, ...]":
        """The messages that were joined here, in their order; of a single message, itself."""
        return self._parts or (self,)

    def __getnewargs__(self) -> tuple[str, str, dict[str, object], "tuple[str, ...]"]:  # type: ignore[override]
        return str(self), self.code, self.facts, self._parts


@dataclass(frozen=True)
class Message:
    """A sentence with placeholders for facts, identified by its code.

    Parameters
    ----------
    code
        Topic and name, as ``"scaling.too_few_runs"``; unique in the library. It stays the same when the text is
        reworded.
    template
        The text, with placeholders such as ``{n}`` or ``{rate:.3g}``.
    """

    code: str
    template: str

    def __call__(self, **facts: object) -> Said:
        """Return the words with the facts in their places; a KeyError where one is missing."""
        return Said(self.template.format_map(facts), self.code, facts)

    @property
    def pattern(self) -> str:
        """A regular expression for this text with any facts, one named group each."""
        return _pattern(self.template)

    @property
    def opening(self) -> str:
        """The text before the first fact."""
        return next(iter(Formatter().parse(self.template)))[0]

    def find_in(self, text: str) -> dict[str, str] | None:
        """Return the facts of this message as they stand in ``text``, None where the text does not hold it.

        Text may have gone through a table, a page or a terminal: line breaks count as spaces. A fact at the end of the
        words reaches to the next semicolon or line break.
        """
        found = re.search(self.pattern, text)
        return found.groupdict() if found else None


def join(separator: str, words: Iterable[str]) -> Said:
    """Return ``words`` as one text that still knows its parts; joined texts among them give theirs."""
    listed = list(words)
    parts = tuple(part for one in listed for part in (one.parts if isinstance(one, Said) else (one,)))
    return Said(separator.join(listed), "", {}, parts)


def at(place: str, words: str) -> str:
    """Return ``words`` prefixed with the place they are about, a file or a key; a message keeps its code and facts."""
    text = f"{place}: {words}"
    return Said(text, words.code, {"place": place, **words.facts}) if isinstance(words, Said) else text


_NUMBER = r"[-+\d][-+\d.,e]*%?|nan|-?inf"
_ANY, _REST = r"[\s\S]*?", r"(?:(?!; )[^\n])*"


@cache
def _pattern(template: str) -> str:
    pattern, seen = "", set[str]()
    pieces = list(Formatter().parse(template))
    for place, (words, name, spec, _) in enumerate(pieces, 1):
        pattern += r"\s+".join(map(re.escape, re.split(r"\s+", words)))
        if name in seen:
            pattern += f"(?P={name})"
        elif name:
            seen.add(name)
            pattern += f"(?P<{name}>{_NUMBER if spec else _REST if place == len(pieces) else _ANY})"
    return pattern
