"""Garbage is not looked for among what stays: modules and tests that are there after collection live to the end.

Looking through a million such objects again and again takes longer than a third of the imports.
"""

import gc

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Look for garbage only after collection, and only among what is made after it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
