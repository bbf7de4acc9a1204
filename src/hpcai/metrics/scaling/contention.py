"""Separate contention from communication: simultaneous independent trainings, one alone, and one on all ranks.

Instances of a weak-scaling group exchange no data, so they slow each other down only through shared memory, caches and
clock frequency. Any further loss of one training on as many ranks with the same batch per rank is due to communication,
waiting for the slowest rank included. With another batch per rank it is due to that, too, and is not separated.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.cells import divide
from hpcai.metrics.scaling.scales import POINT_SETTINGS
from hpcai.metrics.scores.of_run import score_run
from hpcai.records.run import FINISHED, RunRecord

CONTENTION_COLUMNS = columns_of("contention")
METHOD = (
    "measured: mean rate of the simultaneous instances divided by the rate of the same point alone in the table "
    "of scales"
)
NO_SUCH_RANKS = Message(
    "contention.no_such_ranks",
    "the study has no timed run of {ranks} ranks of the same variant, or with the same settings and batch per rank",
)
OTHER_BATCH = Message(
    "contention.other_batch",
    "not communication alone: the batch per rank differs, no row of the study has the same with the same settings",
)


def tell_contention(groups: Mapping[str | Path, Sequence[RunRecord]], scales: pd.DataFrame) -> pd.DataFrame:
    """Return one row per weak-scaling group.

    Parameters
    ----------
    groups
        Records of the instances by the file of their group.
    scales
        Table of scales of the timed runs.

    Returns
    -------
    pandas.DataFrame
        :data:`CONTENTION_COLUMNS`. ``contention_ratio`` is the rate of an instance in the group over the rate of the
        same training alone. ``distributed_ratio`` is the rate of one training on all ranks of the group, over instances
        times the rate alone: with the same batch per rank if the study has such a row with the same settings, otherwise
        of the same variant.
        ``communication_ratio`` = distributed_ratio / contention_ratio; NaN if the batch per rank differs. NaN values
        have a reason.
    """
    rows = [_row(str(path), records, scales) for path, records in sorted(groups.items(), key=lambda one: str(one[0]))]
    return pd.DataFrame(rows, columns=list(CONTENTION_COLUMNS))


def _row(path: str, records: Sequence[RunRecord], scales: pd.DataFrame) -> dict[str, Any]:
    point, instances = records[0].plan.point, len(records)
    identity = {name: getattr(point, name) for name in POINT}
    row: dict[str, Any] = {**identity, "nodes": point.nodes, "ranks": point.ranks, "instances": instances}
    row |= {"n_disturbed": sum(record.is_disturbed for record in records), "method": METHOD, "source": path}
    watched = all(record.training and record.training.stalls for record in records)
    row["n_stalled"] = sum(record.is_stalled for record in records) if watched else math.nan
    if any(record.outcome not in FINISHED for record in records):
        return row | {"reason": "an instance failed, so the others did not run concurrently for the whole time"}
    together = math.fsum(score_run(record).train_rate_samples_per_s for record in records) / instances
    row["together_rate_samples_per_s"] = together
    own = scales[(scales[POINT] == list(identity.values())).all(axis=1)] if len(scales) else scales
    if own.empty:
        return row | {"reason": "the study has no timed run of this point alone"}
    one = own.iloc[0]
    alone = float(one["train_rate_samples_per_s"])
    row |= {"alone_rate_samples_per_s": alone, "contention_ratio": divide(together, alone)}
    return row | _distributed(row, one, records[0].plan.global_batch, scales)


def _distributed(
    row: Mapping[str, Any], alone: "pd.Series[Any]", batch_samples: int, scales: pd.DataFrame
) -> dict[str, Any]:
    """Compare with one training on all ranks of the group, preferably with the same batch per rank.

    Of another variant it counts only with the settings of the point alone: a loss by precision or compression would
    look like communication.
    """
    instances = row["instances"]
    same = (scales["benchmark"] == row["benchmark"]) & (scales["engine"] == row["engine"])
    found = scales[same & (scales["ranks"] == row["ranks"] * instances)]
    alike = _same_settings(found, alone) & found["global_batch_samples"].eq(batch_samples * instances)
    same_batch = found[alike]
    own = found[found["variant"] == row["variant"]]
    chosen = pd.concat([own[own.index.isin(same_batch.index)], same_batch]) if len(same_batch) else own
    if chosen.empty:
        return {"reason": NO_SUCH_RANKS(ranks=row["ranks"] * instances)}
    one = chosen.iloc[0]
    ratio = divide(float(one["train_rate_samples_per_s"]), instances * row["alone_rate_samples_per_s"])
    return {
        "distributed_variant": one["variant"],
        "distributed_scale": one["scale"],
        "distributed_ratio": ratio,
        "communication_ratio": divide(ratio, row["contention_ratio"]) if len(same_batch) else math.nan,
        "reason": "" if len(same_batch) else OTHER_BATCH(),
    }


def _same_settings(scales: pd.DataFrame, one: "pd.Series[Any]") -> "pd.Series[bool]":
    """Return which rows have all settings of another row; a blank one equals a blank one."""
    same = pd.Series(data=True, index=scales.index)
    for name in POINT_SETTINGS:
        same &= scales[name].isna() if pd.isna(one[name]) else scales[name].eq(one[name])
    return same
