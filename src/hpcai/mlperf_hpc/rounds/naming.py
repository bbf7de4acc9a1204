"""Names of organisation, system and benchmark for logs whose folders do not say them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair
from hpcai.mlperf_hpc.rounds.tree import Place

UNKNOWN = "unknown"


def name_places(logs: Sequence[tuple[Place, LoggedRun]], repairs: list[Repair]) -> list[Place]:
    """Return the places with their blanks filled by what most logs of the folder say of themselves; listed.

    In a tree without ``results``, a last folder that does not bear the benchmark's name is taken for the system's.
    """
    folders: dict[str, list[LoggedRun]] = {}
    for place, run in logs:
        folders.setdefault(place.folder, []).append(run)
    named: dict[str, Place] = {}
    for place, _ in logs:
        if place.folder not in named:
            named[place.folder] = _name(place, folders[place.folder], repairs)
    return [
        replace(place, org=name.org, system=name.system, benchmark=name.benchmark)
        for place, name in ((place, named[place.folder]) for place, _ in logs)
    ]


def _name(place: Place, runs: Sequence[LoggedRun], repairs: list[Repair]) -> Place:
    logged = _usual(run.benchmark for run in runs)
    benchmark, system = place.benchmark, place.system
    if not (place.org or place.scaling) and logged and benchmark != logged:
        benchmark, system = logged, system or benchmark
    named = replace(
        place,
        org=place.org or _usual(run.org for run in runs) or UNKNOWN,
        system=system or _usual(run.platform for run in runs) or UNKNOWN,
        benchmark=benchmark or logged or UNKNOWN,
    )
    fields = [key for key in ("org", "system", "benchmark") if getattr(named, key) != getattr(place, key)]
    if fields:
        done = ", ".join(f"{key} {getattr(named, key)}" for key in fields)
        found = f"the folders name no {' and no '.join(fields)}"
        repairs.append(Repair(place.folder, "tree", "named_by_logs", found, f"taken from logs and folder: {done}"))
    return named


def _usual(values: Iterable[str]) -> str:
    said = Counter(value for value in values if value)
    return said.most_common(1)[0][0] if said else ""
