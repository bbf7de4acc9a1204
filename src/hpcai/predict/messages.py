"""How many messages the gradients of a step travel in: Horovod joins tensors up to a size, and divides none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

GRADIENT_BYTES = 4.0
"""Variables and their gradients are float32 in every precision."""


@dataclass(frozen=True)
class Gradients:
    """What a step exchanges.

    Attributes
    ----------
    parameters
        Numbers in all gradients.
    sizes
        Numbers in each, first layers first; empty: not known.
    """

    parameters: int
    sizes: tuple[int, ...] = ()

    def count_messages(self, fusion_bytes: float | None, groups: int) -> int | None:
        """Return the number of messages; None where only the unknown sizes could tell it.

        Parameters
        ----------
        fusion_bytes
            Largest message [B]; None: as many as there are groups.
        groups
            Messages that are asked for without it.
        """
        if not self.sizes:
            is_whole = groups == 1 if fusion_bytes is None else self.parameters * GRADIENT_BYTES <= fusion_bytes
            return 1 if is_whole else None
        return count_messages(self.sizes, fusion_bytes, groups)


def count_messages(sizes: Sequence[int], fusion_bytes: float | None, groups: int = 1) -> int:
    """Return the number of messages of gradients of so many numbers, first layers first; the last layers go first.

    Without a limit [B] there are as many as there are groups, but no more than gradients
    (:func:`hpcai.training.collective.split_backwards`).
    """
    if fusion_bytes is None:
        return max(min(groups, len(sizes)), 1)
    return max(len(fuse_tensors([GRADIENT_BYTES * size for size in reversed(sizes)], fusion_bytes)), 1)


def fuse_tensors(sizes_bytes: Sequence[float], fusion_bytes: float) -> list[tuple[float, ...]]:
    """Return the tensors of each message, as Horovod fuses them in their order.

    Parameters
    ----------
    sizes_bytes
        Of each tensor [B]. One that is longer than the limit is a message of its own.
    fusion_bytes
        Largest message [B]; NaN: all in one.
    """
    parts: list[tuple[float, ...]] = []
    limit_bytes = math.inf if math.isnan(fusion_bytes) else fusion_bytes
    for size_bytes in sizes_bytes:
        if parts and sum(parts[-1]) + size_bytes <= limit_bytes:
            parts[-1] = (*parts[-1], size_bytes)
        else:
            parts.append((size_bytes,))
    return parts
