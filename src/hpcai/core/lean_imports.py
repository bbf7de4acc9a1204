"""Import TensorFlow without what takes a third of its import time each, and look for garbage less often.

That is the packages that it and Keras only try to import, and the search for garbage among what stays.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NEEDLESS = ("h5py", "jax", "matplotlib", "pandas", "PIL", "scipy.sparse", "setuptools")
"""Packages that TensorFlow and Keras import if available, for plots, tables, old file formats and JAX models;
without setuptools, Python's own distutils serves."""


def collect_less_often() -> None:
    """Look for garbage after 50,000 new objects, not after 700, and never among what is there now."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def made_to_stay() -> Iterator[None]:
    """Do not look for garbage inside the block, and later not among what was made in it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make these modules unavailable inside the block, unless they are already imported; later code can import them.

    What is imported in it is made to stay.
    """
    left_out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None stops an import (docs.python.org)
    try:
        with made_to_stay():
            yield
    finally:
        for name in left_out:
            del sys.modules[name]
