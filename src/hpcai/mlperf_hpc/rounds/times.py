"""Times of logs: valid numbers, and their format in tables."""

from datetime import UTC, datetime

FIRST_MS, LAST_MS = 0.0, 253_402_300_799_999.0
"""The Unix epoch, which is 0 by definition, and the end of the year 9999, the last one with a name in calendars."""


def is_time(time_ms: float) -> bool:
    """Return whether a number can be a time in milliseconds since the Unix epoch; NaN cannot."""
    return FIRST_MS <= time_ms <= LAST_MS


def utc_text(time_ms: float) -> str:
    """Return a time as ISO 8601 in UTC; blank for an invalid time."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if is_time(time_ms) else ""
