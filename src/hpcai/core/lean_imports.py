"""Import TensorFlow in half of the time: without packages that it only tries, and without a search for garbage."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NEEDLESS = ("h5py", "jax", "matplotlib", "pandas", "PIL", "scipy.sparse")
"""Packages that TensorFlow and Keras import if available, for plots, tables, old file formats and JAX models."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make these modules unavailable inside the block, unless they are already imported; later code can import them.

    Garbage is not looked for inside the block, and later not among what was imported in it.
    """
    left_out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None stops an import (docs.python.org)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()
        for name in left_out:
            del sys.modules[name]
