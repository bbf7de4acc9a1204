"""Read foreign JSON: Python's reader accepts surrogates that no file can store, and fails on deep nesting."""

import json
import re
from typing import Any

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Matches each escape as a whole, so that the backslash of ``\\\\ud800`` does not start a new one."""


def replace_surrogates(text: str) -> tuple[str, int]:
    r"""Return JSON with ``\ufffd`` in place of lone surrogates, and their number.

    Python reads such an escape as half a character, which can neither be printed nor encoded as UTF-8.
    """
    count = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal count
        if found["lone"] is None:
            return found[0]
        count += 1
        return r"\ufffd"

    return (_ESCAPE.sub(replace, text), count) if r"\u" in text else (text, 0)


def read_json(text: str) -> Any:  # noqa: ANN401  JSON
    """Return the one value of a foreign JSON text, without lone surrogates.

    Raises
    ------
    ValueError
        If it is no JSON, nested more deeply than Python can follow, or has a number of more than 4300 digits.
    """
    try:
        return json.loads(replace_surrogates(text)[0])
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
