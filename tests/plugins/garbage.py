"""Garbage is not looked for among what stays: modules and tests that are there after collection live to the end.

Looking through a million such objects again and again takes longer than a third of the imports.
"""

import pytest

from hpcai.core.lean_imports import made_to_stay


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Look for garbage only after collection, and only among what is made after it."""
    with made_to_stay():
        return (yield)
