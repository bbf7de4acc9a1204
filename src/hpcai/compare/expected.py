"""The range to expect: what this kind of processor or accelerator gives elsewhere, per device or per core.

Results of imported rounds and of other studies (`rounds`, `rank_with`, `compare_with`) count if benchmark, dataset with
its source, quality target, division and, as far as it is known, precision are the same; official data are never
compared with generated data, because the name of the dataset holds its source.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.core.table_files import read_parquet
from hpcai.metrics.cells import divide
from hpcai.metrics.scores.columns import REPEATED
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.records.files import RUN_RECORDS, read_record_text
from hpcai.records.run import RunRecord

SAME = ("suite", "workload", "dataset", "quality_target", "division")
"""What has to be equal."""
FEWEST = 3
"""Of fewer results no median is given."""
QUANTILES = (0.05, 0.95)
SENTENCE = Message("expected.sentence", "{percent:.0f} % of the median of {n} results")
NO_RATE = Message("expected.no_rate", "no throughput was measured")
NO_DEVICE = Message("expected.no_device", "the records do not name the processor or accelerator")
NO_OTHERS = Message("expected.no_others", "no other result was given: study keys rounds, rank_with, compare_with")
NO_SAME_DEVICE = Message("expected.no_same_device", "none of {n} other results is of the kind {device}")
NO_SAME_RULES = Message(
    "expected.no_same_rules",
    "none of {n} results of this kind is of the same benchmark, dataset, target, division and precision",
)
TOO_FEW = Message("expected.too_few", "{n} comparable results, a median needs {needed}")


class Device(NamedTuple):
    """Kind of a device, the unit that a rate is divided by, and how many of them one rank (or compute unit) has."""

    family: str
    unit: str
    per_rank: float


def expected_ranges(scores: pd.DataFrame, own: Device | None, elsewhere: pd.DataFrame) -> pd.DataFrame:
    """Return for each result of a study how it stands among those of the same kind of device.

    Parameters
    ----------
    scores
        The study's table `scores`.
    own
        The study's device; None if the records do not name it.
    elsewhere
        Other results (:func:`read_elsewhere`).

    Returns
    -------
    pandas.DataFrame
        The columns of `expected_ranges`: training throughput per accelerator or per core, the median and the range of
        90 % of the comparable results, and the ratio to the median. Nothing comparable leaves them empty, with a
        reason.
    """
    rows = [_row(score, own, elsewhere) for score in scores.to_dict("records")]
    return pd.DataFrame(rows, columns=list(columns_of("expected_ranges")))


def _row(score: Mapping[Any, Any], own: Device | None, others: pd.DataFrame) -> dict[str, Any]:
    row = {name: score[name] for name in (*POINT, "nodes", "ranks", "dataset", "precision", "source")}
    row |= {"device": own.family if own else "", "device_unit": own.unit if own else "", "expected_n": 0}
    row["method"] = "measured here; elsewhere as measured or published there"
    if own is None:
        return row | {"reason": NO_DEVICE()}
    rate = divide(score["train_rate_samples_per_s"], score["ranks"] * own.per_rank)
    alike = others[others["device"].str.casefold().eq(own.family.casefold()) & others["device_unit"].eq(own.unit)]
    same = alike[[_is_same(score, other) for other in alike.to_dict("records")]]
    row |= {"unit_rate_samples_per_s": rate, "expected_n": len(same)}
    reason = _why_none(rate, own.family, len(others), len(alike), len(same))
    return row | ({"reason": reason} if reason else _range(rate, same["unit_rate"]))


def _why_none(rate: float, family: str, others: int, alike: int, same: int) -> str:
    """Return why a result has no expected range, from the results left after each step; blank if it has one."""
    steps = (
        (rate > 0, NO_RATE()),
        (others > 0, NO_OTHERS()),
        (alike > 0, NO_SAME_DEVICE(n=others, device=family)),
        (same > 0, NO_SAME_RULES(n=alike)),
        (same >= FEWEST, TOO_FEW(n=same, needed=FEWEST)),
    )
    return next((reason for holds, reason in steps if not holds), "")


def _range(rate: float, rates: "pd.Series[float]") -> dict[str, Any]:
    low, high = (float(np.quantile(rates, share)) for share in QUANTILES)
    ratio = rate / float(rates.median())
    return {
        "expected_samples_per_s": float(rates.median()),
        "expected_low_samples_per_s": low,
        "expected_high_samples_per_s": high,
        "expected_ratio": ratio,
        "expected_sentence": SENTENCE(percent=100 * ratio, n=len(rates)),
        "reason": "",
    }


def _is_same(own: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Return whether two results are of one task; published results do not tell their precision."""
    same = all(own[name] == other[name] for name in SAME)
    return same and other["precision"] in ("", own["precision"])


def device_of_record(record: Mapping[str, Any]) -> Device | None:
    """Return the device of a recorded run, as the record's JSON has it; None if it does not name one."""
    machine, facts = record["plan"]["machine"], record["provenance"]["machine_facts"]
    device = machine["device"]
    return _device(_Names(device["kind"], device["model"], machine["cores_per_rank"], *map(facts.get, _TOLD)))


class _Names(NamedTuple):
    """Kind, model and cores per rank of the machine file, and what the node told of its devices."""

    kind: str
    declared: str
    cores_per_rank: int
    accelerators: object
    cpu_model: object


_TOLD = ("accelerators", "cpu_model")


def _device(names: _Names) -> Device | None:
    if names.kind == "gpu":
        model = str(names.accelerators or "").partition(";")[0].partition(",")[0] or names.declared
        return Device(name_family(model), "accelerator", 1.0) if model else None
    model = str(names.cpu_model or "")
    return Device(name_family(model.partition("@")[0]), "core", float(names.cores_per_rank)) if model else None


def device_of_study(records: Sequence[RunRecord]) -> Device | None:
    """Return the device that all records share; None if one of them differs, or names none."""
    # Thousands of records have few names, and what takes time is their family.
    names: set[_Names] = set()
    for record in records:
        machine, facts = record.plan.machine, record.provenance.machine_facts
        told = map(facts.get, _TOLD)
        names.add(_Names(machine.device.kind, machine.device.model, machine.cores_per_rank, *told))
    found = {_device(one) for one in names}
    return found.pop() if len(found) == 1 else None


def read_elsewhere(folders: Iterable[str | Path]) -> pd.DataFrame:
    """Return the table ``scores`` of other results folders with the columns `device`, `device_unit` and `unit_rate`.

    Parameters
    ----------
    folders
        Results folders of studies, or imported rounds; those without a table of scores, and results whose device is
        not known, do not count.

    Raises
    ------
    TableError, RecordError
        If a file is damaged.
    """
    parts = [part for part in map(_rates_of, map(Path, dict.fromkeys(map(str, folders)))) if not part.empty]
    columns = [*SAME, "precision", "device", "device_unit", "unit_rate"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _rates_of(folder: Path) -> pd.DataFrame:
    file = folder / "tables" / "scores.parquet"
    if not file.is_file():
        return pd.DataFrame()
    scores = read_parquet(file)
    # What was published again, and what earned no throughput, is no further result.
    scores = scores[scores["train_rate_samples_per_s"].gt(0) & ~scores["reason"].fillna("").str.contains(REPEATED)]
    systems = folder / "tables" / "mlperf_systems.parquet"
    devices = _devices_of_round(read_parquet(systems)) if systems.is_file() else {}
    one = None if devices else _device_of_folder(folder)
    rows = scores.to_dict("records")
    known = [devices.get((row["origin"], row["machine"]), one) for row in rows]
    scores = scores.assign(
        device=[device.family if device else "" for device in known],
        device_unit=[device.unit if device else "" for device in known],
        unit_rate=[
            divide(row["train_rate_samples_per_s"], row["ranks"] * device.per_rank) if device else math.nan
            for row, device in zip(rows, known, strict=True)
        ],
    )
    return scores[scores["device"].ne("") & scores["unit_rate"].gt(0)]


def _devices_of_round(systems: pd.DataFrame) -> dict[tuple[str, str], Device]:
    """Return the devices of a round's systems; a processor without its number of cores is left out."""
    found: dict[tuple[str, str], Device] = {}
    for row in systems.to_dict("records"):
        cores = row.get("processor_cores", math.nan)
        if row["accelerator"]:
            found[row["origin"], row["submission"]] = Device(row["family"], "accelerator", 1.0)
        elif cores > 0:
            found[row["origin"], row["submission"]] = Device(row["family"], "core", float(cores))
    return found


def _device_of_folder(folder: Path) -> Device | None:
    record = next(folder.glob(RUN_RECORDS), None)
    return device_of_record(json.loads(read_record_text(record).text)) if record else None
