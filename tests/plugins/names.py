"""Tests have the same names whenever and wherever they are collected.

Workers compare what they collected, each with hashes and addresses of its own. With clocks of their own as well, a
name that holds a time fails always, not only where two workers collect in different seconds.
"""

import re
import string
import time

import pytest

DAY_S = 86400
UNREADABLE = {*range(256)} - {*string.printable.encode()}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Each worker collects on a day of its own."""
    days = int(re.sub(r"\D", "", getattr(session.config, "workerinput", {}).get("workerid", "")) or 0)
    clock, shift_s = time.time, days * DAY_S
    time.time = lambda: clock() + shift_s
    try:
        return (yield)
    finally:
        time.time, shift_s = clock, 0  # who took the function while it was here reads the right time later


def pytest_make_parametrize_id(val, argname):
    """Refuse bytes that nobody can read: such parameters need `ids`."""
    if isinstance(val, bytes) and not UNREADABLE.isdisjoint(val):
        raise pytest.UsageError(f"parameter {argname}: found {val[:40]!r}, expected readable bytes or names (ids=)")
