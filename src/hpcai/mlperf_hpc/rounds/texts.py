"""Names and texts that others wrote, as tables, figures and terminals can show them."""

import unicodedata

LONGEST = 200
"""Characters that are kept of a name from a log or a system file."""
_NO_TEXT = ("Cc", "Cs", "Cn")
"""Unicode's categories of control characters, surrogates (bytes that are no UTF-8) and what stands for no character."""


def is_text(words: str) -> bool:
    """Tell a name that UTF-8 can hold and that has no control characters."""
    return words.isprintable() or not any(unicodedata.category(sign) in _NO_TEXT for sign in words)


def printable(words: str) -> str:
    r"""Return a name with escapes such as ``\x07`` in place of what is no text."""
    if is_text(words):
        return words
    return "".join(sign if is_text(sign) else sign.encode("unicode_escape").decode("ascii") for sign in words)


def clip(words: str) -> str:
    """Return a name without control characters, the end of one that is not a name cut off."""
    shown = printable(words[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
