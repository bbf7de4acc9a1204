"""System files: the composition of a machine, and the folder of results that it belongs to."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from hpcai.mlperf_hpc.rounds.log_repairs import shown
from hpcai.mlperf_hpc.rounds.model import LARGEST_COUNT, Repair, System
from hpcai.mlperf_hpc.rounds.texts import clip
from hpcai.mlperf_hpc.rounds.tree import Place, top_of_system
from hpcai.parsers.json_text import replace_surrogates

PLACEHOLDERS = ("", "n/a", "na", "none", "tbd", "todo", "unknown", "-")
DIVISIONS = ("closed", "open")


def is_placeholder(value: object) -> bool:
    """Return whether a value is a placeholder, such as ``SUBMISSION_PLATFORM_PLACEHOLDER`` or "N/A"."""
    return value is None or (isinstance(value, str) and _is_blank(value))


def _is_blank(words: str) -> bool:
    return words.strip().lower() in PLACEHOLDERS or "PLACEHOLDER" in words.upper()


def read_system(path: str, content: bytes, repairs: list[Repair]) -> System | None:
    """Read a system file; None, with an entry in the list, if it is not a JSON object.

    Parameters
    ----------
    path
        Relative to the source; its base name is the system's name.
    repairs
        Collects fields without a number where one is needed, and invalid texts.
    """
    try:
        text, lone = replace_surrogates(content.decode("utf-8-sig"))
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        repairs.append(Repair(path, "file", "system_unreadable", f"no JSON: {error}", "the system is unknown"))
        return None
    if not isinstance(fields, dict):
        found = f"a {type(fields).__name__}, no object"
        repairs.append(Repair(path, "file", "system_unreadable", found, "the system is unknown"))
        return None
    if lone:
        repairs.append(Repair(path, "file", "text_replaced", f"{lone} halves of characters", "U+FFFD in their place"))
    nodes, processors, accelerators = (_count(path, fields, key, least, repairs) for key, least in _COUNTS.items())
    division = str(fields.get("division", "")).strip().lower()
    if division not in DIVISIONS:
        found = shown(fields.get("division"))
        repairs.append(Repair(path, "division", "system_division", found, "the division of the logs is taken"))
        division = ""
    name = PurePosixPath(path).name.removesuffix(".json")
    return System(
        source=path,
        name=name,
        fields=fields,
        division=division,
        nodes=nodes,
        processors_per_node=processors,
        accelerators_per_node=accelerators,
        accelerator=_words(fields.get("accelerator_model_name")),
        processor=_words(fields.get("host_processor_model_name")),
    )


_COUNTS = {"number_of_nodes": 1, "host_processors_per_node": 1, "accelerators_per_node": 0}
"""Fields with whole numbers, and their minimum."""


def _count(path: str, fields: Mapping[str, Any], key: str, least: int, repairs: list[Repair]) -> int | None:
    """Return a whole number given as a number or as text."""
    value = fields.get(key)
    number = whole_number(value)
    if number is not None and number >= least:
        return number
    found = shown(value) if key in fields else "missing"
    named = bool(_words(fields.get("accelerator_model_name")))
    units = "compute units are unknown, too" if named else "the processors count as compute units"
    done = "taken as unknown" + (f": {units}" if key == "accelerators_per_node" else "")
    repairs.append(Repair(path, key, "system_count", found, done))
    return None


def whole_number(value: object) -> int | None:
    """Return a whole number given as a number or as digits; None for anything else, and for implausible counts.

    No plausible count reaches ``LARGEST_COUNT``; larger numbers cannot be multiplied or written.
    """
    if isinstance(value, str):
        digits = value.strip()
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) <= LARGEST_COUNT and value == int(value) else None


def _words(value: object) -> str:
    return "" if is_placeholder(value) else clip(str(value).strip())


def join_systems(
    places: Iterable[Place], systems: Sequence[System], repairs: list[Repair]
) -> dict[tuple[str, str], System]:
    """Return the systems of folders of results, by ``(Place.top, Place.system)``: files with the folder's name.

    If no name in the same organisation matches (mlperf_logs.md 1), a file whose name differs only in case is taken.
    Else, if a single folder lacks its file, it gets the organisation's only unused file. Both cases are listed.
    Otherwise the folder has no system, which is listed as well.
    """
    files = {(top_of_system(system.source), system.name): system for system in systems}
    wanted = {(place.top, place.system): place for place in places}
    found = {key: files[key] for key in wanted if key in files}
    missing = [key for key in wanted if key not in files]
    for top, name in missing:
        taken = {system.source for system in found.values()}
        free = [system for key, system in files.items() if key[0] == top and system.source not in taken]
        alike = [system for system in free if system.name.lower() == name.lower()]
        alone = [key for key in missing if key[0] == top] == [(top, name)]
        candidates = alike or (free if alone else [])
        source = PurePosixPath(top, "systems", f"{name}.json").as_posix()
        if len(candidates) == 1:
            found[top, name] = candidates[0]
            kind = "system_by_case" if alike else "system_by_elimination"
            repairs.append(Repair(source, "name", kind, f"missing, but {candidates[0].source}", "taken in its place"))
        else:
            words = f"missing; {len(free)} files without results beside it" if free else "missing"
            repairs.append(Repair(source, "name", "system_missing", words, "the system is unknown: no compute units"))
    return found
