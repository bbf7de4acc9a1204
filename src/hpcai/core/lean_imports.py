"""Imports without what the imported modules only look for: TensorFlow and Keras take a third of their time for it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

NEEDLESS = ("h5py", "jax", "matplotlib", "pandas", "PIL", "scipy.sparse")
"""What TensorFlow and Keras import where they find it, for plots, tables, old file formats and models of JAX."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let these modules seem absent for a while, unless they are imported already; what comes later may import them."""
    left_out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None stops an import (docs.python.org)
    try:
        yield
    finally:
        for name in left_out:
            del sys.modules[name]
