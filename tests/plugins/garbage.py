"""Garbage is not looked for among what stays: modules and tests that are there after collection live to the end.

Looking through a million such objects again and again takes longer than a third of the imports. What tests make is
looked through less often than Python does by itself, as in the workflow (rules/controller.smk).
"""

import pytest

from hpcai.core.lean_imports import collect_less_often, made_to_stay


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Look for garbage only after collection, and only among what is made after it."""
    with made_to_stay():
        found = yield
    collect_less_often()
    return found
