"""What goes into a page: foreign text without unprintable characters, JSON inside a script, the size of a drawing."""

import json
import re
from typing import Any

from markupsafe import Markup

LENGTH = re.compile(r'<svg\b[^>]*?\b(width|height)="([0-9.]+)(pt|px|)"[^>]*?\b(?:width|height)="([0-9.]+)(?:pt|px|)"')
PIXELS = {"pt": 4 / 3, "px": 1.0, "": 1.0}
BLANKS, KEPT = "\t\n\v\f\r", "\t\n\v\f\r\u00a0"
"""Characters replaced by blanks; and, with the no-break space, those kept although they are not printable."""


def say_plainly(value: object) -> object:
    """Return a text without unprintable characters; line breaks become blanks."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "".join(" " if sign in BLANKS else sign for sign in value if sign in KEPT or sign.isprintable())
    return value


def read_size(drawing: str) -> tuple[int, int]:
    """Return the natural size of an SVG [px]; zeros if it names none."""
    found = LENGTH.search(drawing[:2000])
    if not found:
        return 0, 0
    first, pixels = float(found[2]), PIXELS[found[3]]
    sizes = {found[1]: first * pixels}
    other = "height" if found[1] == "width" else "width"
    sizes[other] = float(found[4]) * pixels
    return round(sizes["width"]), round(sizes["height"])


def embed_json(data: Any) -> Markup:  # noqa: ANN401  JSON
    """Return JSON that is safe inside a script element: it cannot end the element or begin a comment."""
    if data is None:
        return Markup("")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704
