"""When MLCommons published the rounds: results of a later one may be those of an earlier one again."""

from collections.abc import Mapping
from types import MappingProxyType

PUBLISHED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"v0.7": (2020, 11), "v1.0": (2021, 11), "v2.0": (2022, 11), "v3.0": (2023, 11)}
)
"""Year and month in which MLCommons published the results of a round."""
NEVER = (9999, 12)
"""Sorts what was not published, or nobody knows when, behind all rounds."""


def publication_order(origin: str) -> tuple[int, int]:
    """Return what sorts origins by their publication; those whose date is not known come last."""
    return PUBLISHED.get(origin, NEVER)
