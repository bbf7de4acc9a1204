"""Make names and texts from foreign files safe for tables, figures and terminals."""

import unicodedata

LONGEST = 200
"""Characters kept of a name from a log or a system file."""
_NO_TEXT = ("Cc", "Cs", "Cn")
"""Unicode categories of control characters, surrogates (bytes that are not UTF-8) and unassigned code points."""


def is_text(words: str) -> bool:
    """Return whether a name fits UTF-8 and has no control characters."""
    return words.isprintable() or not any(unicodedata.category(sign) in _NO_TEXT for sign in words)


def printable(words: str) -> str:
    r"""Return a name with escapes such as ``\x07`` in place of invalid characters."""
    if is_text(words):
        return words
    return "".join(sign if is_text(sign) else sign.encode("unicode_escape").decode("ascii") for sign in words)


def clip(words: str) -> str:
    """Return a name without control characters, cut to the maximum length."""
    shown = printable(words[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
