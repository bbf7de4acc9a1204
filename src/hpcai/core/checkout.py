"""The checkout that the library runs from, which holds what no wheel has: workflow, configuration, lock files."""

from pathlib import Path

import hpcai


def source_root() -> Path | None:
    """Return the checkout that the library runs from; None for an installed package."""
    root = Path(hpcai.__file__).resolve().parents[2]
    return root if (root / "requirements.lock").is_file() else None
