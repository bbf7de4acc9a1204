"""Differences between two results other than their scores: rules, data, settings, code, machine, software."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.compare.study import PointKey, Study
from hpcai.records.files import RUN_RECORDS

CATEGORIES = ("rules", "data", "settings", "code", "machine", "software")
"""In order of importance: with other rules or data, scores have another meaning."""
CHANGE_COLUMNS = columns_of("changes")
"""One row per difference; `where` is blank if it applies to all points that both results have."""
NOT_SET = "not set"
ABSENT = "not recorded"

TABLE_FACTS = {
    "suite": "rules", "rule_set": "rules", "time_staging": "rules", "runs_by_rule": "rules", "quality_target": "rules",
    "exponent": "rules", "data_source": "data", "precision": "settings", "compression": "settings",
    "global_batch_samples": "settings", "flop_method": "settings", "flop_per_sample": "settings",
    "power_method": "settings", "workload": "settings", "page_cache": "settings", "commit": "code", "dirty": "code",
    "lock_sha256": "code", "machine": "machine",
}  # fmt: skip
"""Columns of the tables of runs and their scores that describe a point."""
IN_RECORD = ("rule_set", "time_staging", "precision", "compression", "quality_target", "machine", "workload", "suite")
"""The subset that records cover in more detail."""
NOT_OF_THE_POINT = (
    "plan.study", "plan.repetition", "plan.seed", "plan.benchmark.name", "plan.point.benchmark", "plan.point.variant",
    "plan.point.nodes", "plan.point.ranks_per_node", "plan.kind", "plan.profile", "plan.max_steps",
    "plan.requires_acceptance_s",
)  # fmt: skip
"""Keys that identify runs and points instead of describing results."""
IN_PLAN = (
    "machine", "rule_set", "time_staging", "limits", "submission", "seeds", "measure", "published", "compare_with",
    "acceptance", "requires_acceptance",
)  # fmt: skip
"""Keys of a study that its runs' plans repeat, or that do not affect measurements."""
PARTS = {
    "plan.benchmark.data": "data", "plan.benchmark.target": "rules", "plan.rule_set": "rules",
    "plan.time_staging": "rules", "plan.submission": "rules", "plan.machine": "machine", "plan": "settings",
    "provenance.data_digest": "data", "provenance.pack_digest": "data", "provenance.commit": "code",
    "provenance.dirty": "code", "provenance.lock_sha256": "code", "provenance.machine_facts": "machine",
    "provenance.software": "software", "provenance.environment": "software", "provenance.page_cache": "settings",
}  # fmt: skip
"""Parts of a record and their categories; of two matches the longer one wins, and unmatched keys are ignored."""


class Fact(NamedTuple):
    """One recorded fact of a result."""

    category: str
    key: str


_DATA, _PACK = Fact("data", "data_digest"), Fact("data", "pack_digest")
PACK_SETTINGS = "benchmark.pack."


@dataclass(frozen=True)
class _Side:
    """All facts of one result by point, each with all its values over the runs."""

    facts: Mapping[PointKey, Mapping[Fact, str]]
    source: str


def find_changes(base: Study, new: Study) -> pd.DataFrame:
    """Return the differences between two results, at the points that both have.

    Parameters
    ----------
    base, new
        Two results. If one has no run records, only the tables of runs are compared.

    Returns
    -------
    pandas.DataFrame
        :data:`CHANGE_COLUMNS`, ordered by category and key. ``points`` is the number of points affected; ``before`` and
        ``after`` list all distinct values of the runs. ``where`` names benchmarks and points.
    """
    detailed = bool(base.records) and bool(new.records)
    before, after = (_Side(_facts(study, detailed), _source(study, detailed)) for study in (base, new))
    common = [key for key in before.facts if key in after.facts]
    rows = [*_study_rows(base, new), *_point_rows(before, after, common)]
    frame = pd.DataFrame(rows, columns=list(CHANGE_COLUMNS))
    order = frame["category"].map(CATEGORIES.index).astype("int64")
    # Changes of a whole study precede those of a single benchmark.
    return (
        frame.assign(order=order, part=frame["where"] != "")
        .sort_values(["order", "part", "key", "where"], kind="stable", ignore_index=True)
        .drop(columns=["order", "part"])
    )


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings as dotted keys and values; lists are values."""
    for key, value in settings.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from flatten(value, name)
        else:
            yield name, value


def _study_rows(base: Study, new: Study) -> Iterator[dict[str, Any]]:
    """Yield differences in the study files that the runs' plans do not contain, and always the studies' names."""
    before = {"name": base.name, **dict(flatten(base.settings))}
    after = {"name": new.name, **dict(flatten(new.settings))}
    keys = before.keys() | after.keys() if base.settings and new.settings else {"name"}
    for key in sorted(keys):
        values = [_say(side[key]) if key in side else ABSENT for side in (before, after)]
        if key.split(".")[0] not in IN_PLAN and values[0] != values[1]:
            source = f"{base.folder / 'study.json'} | {new.folder / 'study.json'}"
            yield _row(Fact("settings", f"study.{key}"), "", 0, (values[0], values[1]), source)


def _point_rows(before: _Side, after: _Side, common: list[PointKey]) -> Iterator[dict[str, Any]]:
    facts = dict.fromkeys(fact for side in (before, after) for key in common for fact in side.facts[key])
    source = f"{before.source} | {after.source}"
    for fact in facts:
        changed: dict[tuple[str, str], list[PointKey]] = {}
        for key in common:
            sides = before.facts[key], after.facts[key]
            values = tuple(side.get(fact, ABSENT) for side in sides)
            if values[0] != values[1] and not (fact == _PACK and _is_packed_again(*sides)):
                changed.setdefault((values[0], values[1]), []).append(key)
        for values, keys in changed.items():
            yield _row(fact, _where(keys, common), len(keys), values, source)


def _is_packed_again(before: Mapping[Fact, str], after: Mapping[Fact, str]) -> bool:
    """Return whether equal data were packed with equal settings: old records also hashed the packing time."""
    data = before.get(_DATA, NOT_SET)
    settings = [
        {fact: text for fact, text in side.items() if fact.key.startswith(PACK_SETTINGS)} for side in (before, after)
    ]
    packed = NOT_SET not in (before.get(_PACK, NOT_SET), after.get(_PACK, NOT_SET))
    return packed and data != NOT_SET and data == after.get(_DATA) and settings[0] == settings[1]


def _row(fact: Fact, where: str, points: int, values: tuple[str, str], source: str) -> dict[str, Any]:
    cells = (fact.category, fact.key, where, points, *values, source)
    return dict(zip(CHANGE_COLUMNS, cells, strict=True))


def _where(keys: list[PointKey], common: list[PointKey]) -> str:
    """Name whole benchmarks by name and single points in full; blank if all points are affected."""
    if len(keys) == len(common):
        return ""
    words = []
    for benchmark in dict.fromkeys(key.benchmark for key in keys):
        own = [key for key in keys if key.benchmark == benchmark]
        everywhere = len(own) == sum(key.benchmark == benchmark for key in common)
        words += [benchmark] if everywhere else [key.label for key in own]
    return ", ".join(words)


def _facts(study: Study, detailed: bool) -> dict[PointKey, dict[Fact, str]]:
    return {key: _point_facts(study, runs, detailed) for key, runs in study.point_runs().items()}


def _point_facts(study: Study, runs: pd.DataFrame, detailed: bool) -> dict[Fact, str]:
    """Return all facts of one point; different values of its runs are listed."""
    values: dict[Fact, dict[str, None]] = {}
    for column, category in TABLE_FACTS.items():
        if column in runs and not (detailed and column in IN_RECORD):
            said = [_say(value) for value in runs[column].unique()]
            # A failed run has neither counted work nor power, which is not a setting.
            known = [text for text in said if text != NOT_SET] or said
            values[Fact(category, column)] = dict.fromkeys(known)
    if detailed:
        for run_id in runs["run_id"]:
            for fact, text in _record_facts(study.records.get(str(run_id), {})):
                values.setdefault(fact, {})[text] = None
    return {fact: " | ".join(sorted(texts)) for fact, texts in values.items()}


def _record_facts(record: Mapping[str, Any]) -> Iterator[tuple[Fact, str]]:
    for part in ("plan", "provenance"):
        for key, value in flatten(record.get(part, {}), part):
            category = _category(key)
            column = key.split(".")[-1]
            if category and key not in NOT_OF_THE_POINT and not (part == "provenance" and column in TABLE_FACTS):
                yield Fact(category, key.removeprefix(f"{part}.")), _say(value)


def _category(key: str) -> str:
    """Return the category of the longest part that contains a key; blank for non-facts such as a command."""
    fitting = [part for part in PARTS if key == part or key.startswith(f"{part}.")]
    return PARTS[max(fitting, key=len)] if fitting else ""


def _say(value: object) -> str:
    """Return a setting as text; equal settings give equal texts."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value == "" or (isinstance(value, float) and math.isnan(value)):
        return NOT_SET
    if isinstance(value, float):
        return f"{value:.15g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _source(study: Study, detailed: bool) -> str:
    return str(study.folder / RUN_RECORDS) if detailed else str(study.tables[0])
