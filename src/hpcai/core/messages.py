"""Messages: reasons and errors are codes with facts and become text at the edge, so rewording breaks nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Self


class Said(str):
    """The text of a message, with its code and facts; formatting keeps only the text.

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
        """Return ``words`` with their code, facts and parts."""
        self = super().__new__(cls, words)
        self.code, self.facts, self._parts = code, facts, parts
        return self

    @property
    def parts(self) -> "tuple[str, ...]":
        """The messages joined here, in order; a single message returns itself."""
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
        """Return the text with the facts inserted; raises KeyError if one is missing."""
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
        """Return the facts of this message found in ``text``; None if the text does not contain it.

        Text may have passed through a table, a page or a terminal, so line breaks count as spaces. A fact at the end of
        the message extends to the next semicolon or line break.
        """
        found = re.search(self.pattern, text)
        return found.groupdict() if found else None


def join(separator: str, words: Iterable[str]) -> Said:
    """Return ``words`` as one text that keeps its parts; joined texts among them contribute theirs."""
    listed = list(words)
    parts = tuple(part for one in listed for part in (one.parts if isinstance(one, Said) else (one,)))
    return Said(separator.join(listed), "", {}, parts)


def at(place: str, words: str) -> str:
    """Return ``words`` prefixed with the place concerned, a file or a key; a message keeps its code and facts."""
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
