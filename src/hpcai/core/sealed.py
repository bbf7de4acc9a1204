"""Self-checking files, which end with the SHA-256 of all preceding content.

The digest is the last key of a JSON file, or a comment after a drawing. It is not a second file, so copies cannot lose
it, and one rename publishes both.
"""

import hashlib
import json
import re
from typing import NamedTuple

from pydantic import BaseModel

KEY = b"content_sha256"
_END = b"\n}\n"
_SEAL = re.compile(rb',\n "%b": "([0-9a-f]{64})"\n}\n\Z' % KEY)
_NAMED = re.compile(rb'"%b"\s*:' % KEY)
_SVG_END = b"</svg>"
_COMMENT = re.compile(rb"<!-- %b: ([0-9a-f]{64}) -->\n\Z" % KEY)


class Unsealed(NamedTuple):
    """The content of a file without its seal, and whether it had one; files of earlier versions have none."""

    text: bytes
    is_sealed: bool


def seal(text: bytes) -> bytes:
    """Return a JSON object with the SHA-256 of its text as its last key.

    Parameters
    ----------
    text
        A non-empty object, indented by one blank, with a trailing line break.

    Raises
    ------
    ValueError
        If the layout differs.
    """
    if not text.endswith(_END):
        raise ValueError(f"found JSON that ends with {text[-3:]!r}, expected {_END!r}")
    body = text.removesuffix(_END)
    return body + b',\n "%b": "%b"' % (KEY, hashlib.sha256(body).hexdigest().encode()) + _END


def sealed_json(values: dict[str, object]) -> bytes:
    """Return plain values as the content of a JSON file with its seal; an empty object has nothing to seal."""
    text = (json.dumps(values, indent=1) + "\n").encode()
    return seal(text) if values else text


def sealed_model(model: BaseModel) -> bytes:
    """Return a model as the content of a JSON file with its seal."""
    return seal((model.model_dump_json(indent=1) + "\n").encode())


def unseal(content: bytes) -> Unsealed:
    """Check the content of a file against its seal, if it has one.

    Raises
    ------
    ValueError
        If a byte was changed since sealing.
    """
    found = _SEAL.search(content)
    if found is None:
        if _NAMED.search(content):
            raise ValueError(f"found no {KEY.decode()} on its last line; the file was changed")
        return Unsealed(content, is_sealed=False)
    body = content[: found.start()]
    _compare(body, found[1])
    return Unsealed(body + _END, is_sealed=True)


def seal_drawing(drawing: bytes) -> bytes:
    """Return a drawing (SVG) followed by a comment with the SHA-256 of its text."""
    body = drawing if drawing.endswith(b"\n") else drawing + b"\n"
    return body + b"<!-- %b: %b -->\n" % (KEY, hashlib.sha256(body).hexdigest().encode())


def unseal_drawing(content: bytes) -> Unsealed:
    """Check a drawing against its seal, if it has one.

    Raises
    ------
    ValueError
        If a byte was changed since sealing, or its end was cut.
    """
    found = _COMMENT.search(content)
    if found is None:
        if KEY in content or not content.rstrip().endswith(_SVG_END):
            raise ValueError("found a different end than was written; the file was truncated or changed")
        return Unsealed(content, is_sealed=False)
    body = content[: found.start()]
    _compare(body, found[1])
    return Unsealed(body, is_sealed=True)


def _compare(body: bytes, noted: bytes) -> None:
    digest, expected = hashlib.sha256(body).hexdigest(), noted.decode()
    if digest != expected:
        raise ValueError(f"found SHA-256 {digest[:12]}, expected {expected[:12]} as it was written; it was changed")
