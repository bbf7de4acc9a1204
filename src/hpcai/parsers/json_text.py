"""JSON as others wrote it: what Python's reader admits although no file can hold it afterwards."""

import re

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Each escape as a whole, so that the backslash of ``\\\\ud800`` is not taken for the beginning of one."""


def replace_surrogates(text: str) -> tuple[str, int]:
    r"""Return JSON with ``\ufffd`` in place of surrogates that stand alone, and how many there were.

    Python reads such an escape as half a character, which can be neither printed nor written as UTF-8.
    """
    count = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal count
        if found["lone"] is None:
            return found[0]
        count += 1
        return r"\ufffd"

    return (_ESCAPE.sub(replace, text), count) if r"\u" in text else (text, 0)
