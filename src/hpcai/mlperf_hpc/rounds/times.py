"""Times of logs: which numbers can be one, and how tables write them."""

from datetime import UTC, datetime

FIRST_MS, LAST_MS = 0.0, 253_402_300_799_999.0
"""The Unix epoch, which is 0 by definition, and the end of the year 9999, after which calendars have no name."""


def is_time(time_ms: float) -> bool:
    """Tell a number that can be a time in milliseconds since the Unix epoch; NaN is none."""
    return FIRST_MS <= time_ms <= LAST_MS


def utc_text(time_ms: float) -> str:
    """Return a time as ISO 8601 in UTC; blank for what is not a time."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if is_time(time_ms) else ""
