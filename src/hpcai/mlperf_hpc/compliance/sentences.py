"""Plain sentences for the expressions of the package's rule files."""

import re

from hpcai.parsers.mllog import MllogEvent

LONGEST = 60
_IN_METADATA = re.compile(r"'(\w+)' in v\['metadata'\]")
_OF_ORDER = {
    "not s['init_stopped']": "is logged after init_stop, expected before it",
    "not s['run_started']": "is logged after run_start, expected before it",
    "s['init_started']": "is logged before any init_start, expected after it",
    "s['run_started']": "is logged before run_start, expected after it",
    "s['staging_started']": "is logged before any staging_start, expected after it",
    "( s['init_stopped'] == True )": "is logged before init_stop, expected after it",
    "ll.timestamp - s['first_init_start'] < (30*60*1e3)": "comes 30 minutes or more after the first init_start",
    "v['value'] != ''": "is blank, expected a value",
}


def say_check(text: str, event: MllogEvent) -> str:
    """Describe a line that fails an expression, and what the expression requires."""
    if text in _OF_ORDER:
        return f"{event.key} {_OF_ORDER[text]}"
    needed = _IN_METADATA.fullmatch(text)
    if needed:
        return f"{event.key} has no `{needed[1]}` in its metadata, expected one"
    if "metadata" in text:
        return f"{event.key} has the metadata {say_value(event.metadata)}, expected `{text}`"
    return f"{event.key} has the value {say_value(event.value)}, expected `{text}`"


def say_value(value: object) -> str:
    """Return a value as logged, cut if it is long."""
    words = repr(value)
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"
