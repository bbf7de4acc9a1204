"""Registry of the benchmarks: the packages found in this folder."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from hpcai.core.extras import extras_named
from hpcai.workloads.declaration import Declaration


def _discover() -> dict[str, Declaration]:
    package = __name__.rpartition(".")[0]
    names = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if module.ispkg)
    return {name: import_module(f"{package}.{name}").WORKLOAD for name in names}


WORKLOADS: Mapping[str, Declaration] = MappingProxyType(_discover())
"""Keyed by the ``workload`` of a benchmark file."""


def load_part(pattern: str, workload: str) -> Any:  # noqa: ANN401  a class or facts, as the part has it
    """Load one part that a benchmark declares; only that part is imported.

    Parameters
    ----------
    pattern
        Package of the part with a star for the benchmark, such as ``hpcai.workloads.*.data``. Callers write it as a
        literal: the digest of a rule (`hpcai.campaign.library_digest`) finds there what may be loaded.
    workload
        One of `WORKLOADS`, which has this part.

    Raises
    ------
    MissingExtraError
        If the part needs a package that is not installed.
    """
    part = pattern.rpartition(".")[2]
    module, attribute = getattr(WORKLOADS[workload], part).split(":")
    with extras_named():
        loaded = import_module(f"{pattern.removesuffix(part).replace('*', workload)}{module}")
    return getattr(loaded, attribute)


def title_of(workload: str) -> str:
    """Return the display title of a workload; an unknown one keeps its own name."""
    declared = WORKLOADS.get(workload)
    return (declared.title if declared else "") or workload


def read_beside(workload: str, name: str) -> str:
    """Return a text file of a benchmark's folder."""
    return (Path(__file__).parent / workload / name).read_text(encoding="utf-8")
