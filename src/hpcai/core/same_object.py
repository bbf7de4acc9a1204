"""Keys of caches by identity, for settings that are expensive to hash and never change."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Held = TypeVar("Held")


@dataclass(frozen=True, eq=False)
class SameObject(Generic[Held]):
    """An object as a key: equal only to the same object, which a cache thereby keeps alive."""

    held: Held

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same object."""
        return isinstance(other, SameObject) and self.held is other.held

    def __hash__(self) -> int:
        """Return the object's identity."""
        return id(self.held)
