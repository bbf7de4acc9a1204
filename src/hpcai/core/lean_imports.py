"""Import TensorFlow without the packages that it and Keras only try to import: a third of its import time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

NEEDLESS = ("h5py", "jax", "matplotlib", "pandas", "PIL", "scipy.sparse")
"""Packages that TensorFlow and Keras import if available, for plots, tables, old file formats and JAX models."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make these modules unavailable inside the block, unless they are already imported; later code can import them."""
    left_out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None stops an import (docs.python.org)
    try:
        yield
    finally:
        for name in left_out:
            del sys.modules[name]
