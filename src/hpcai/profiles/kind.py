"""The declaration ``PROFILE`` of a kind of profile."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hpcai.catalogue.profiles import PROFILES, ProfileFacts
from hpcai.config.runs import RunPlan
from hpcai.profiles.instrument import NO_INSTRUMENT, Instrument, Missing

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

PATTERN = "hpcai.profiles.*"
"""Modules that may be loaded, for the digest of a rule (`hpcai.campaign.library_digest`)."""


@dataclass(frozen=True, kw_only=True)
class Kind(ProfileFacts):
    """One kind of profile: literal facts, and functions.

    Attributes
    ----------
    find_instrument
        Returns the tool for a profiled run on this machine, or why there is none.
    read
        Returns the tables of one captured profile; with ``also``, the result of ``gather`` is the second argument. An
        `HpcaiError` invalidates only this capture's rows.
    gather
        Returns the data that ``read`` needs from captures of the kind ``also``.
    """

    find_instrument: Callable[[RunPlan], Instrument | Missing]
    read: "Callable[..., dict[str, pd.DataFrame]]"
    gather: "Callable[[Iterable[Profile]], Any] | None" = None


def kind_of(name: str) -> Kind:
    """Return a kind by its name, one of `PROFILES`; imports only its module."""
    if name not in PROFILES:
        raise KeyError(name)
    kind: Kind = import_module(PATTERN.replace("*", name)).PROFILE
    return kind


def find_instrument(plan: RunPlan) -> Instrument | Missing:
    """Return the tool for a profiled run on this machine, or why there is none."""
    return kind_of(plan.profile).find_instrument(plan) if plan.profile else NO_INSTRUMENT
