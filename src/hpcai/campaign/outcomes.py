"""Points of a study without a result because all their runs failed; reported at the end of the workflow."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hpcai.campaign.failures import LostPoint
from hpcai.core.errors import NoResultError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message
from hpcai.metrics.run_tables import read_groups, read_records
from hpcai.records.run import FINISHED, RunRecord

NO_POINT = Message("outcomes.no_point", "no point of the study has a result")
SOME_POINTS = Message("outcomes.some_points", "{lost} of {points} points have none")
NO_RESULT = Message(
    "outcomes.no_result",
    "{points}, because all their runs failed; the report shows them. Fix the cause, run `hpcai retry`, then start "
    "again:",
)

NAMED = 10
"""Number of points named with their reasons."""


def write_outcomes(records: Sequence[str | Path], groups: Sequence[str | Path], file: Path) -> None:
    """Write the number of points with a result, if all points of a study have one.

    Parameters
    ----------
    records, groups
        Files ``record.json`` of timed runs and ``group.json`` of weak-scaling groups.
    file
        JSON file to write.

    Raises
    ------
    NoResultError
        If all runs of a point, or all instances of a group, failed; names the points with their reasons.
    RecordError
        If a record is damaged.
    """
    points: dict[str, list[RunRecord]] = {}
    for record in read_records(records):
        points.setdefault(f"runs/{_point(record)}", []).append(record)
    for instances in read_groups(groups).values():
        points[f"weak/{_point(instances[0])}"] = instances
    lost = list(_lost_points(points))
    if lost:
        raise NoResultError(say_lost(lost, len(points)))
    write_atomically(file, (json.dumps({"points": len(points), "without_result": 0}, indent=1) + "\n").encode())


def _point(record: RunRecord) -> str:
    return record.run_id.rpartition("/")[0]


def _lost_points(points: Mapping[str, Sequence[RunRecord]]) -> Iterable[LostPoint]:
    for name, records in points.items():
        if all(record.outcome not in FINISHED for record in records):
            yield LostPoint(name, len(records), records[-1].reason)


def say_lost(lost: Sequence[LostPoint], points: int) -> str:
    """Describe the points without a result, the reasons, and the remedy."""
    whole = NO_POINT() if len(lost) == points else SOME_POINTS(lost=len(lost), points=points)
    more = [f"... and {len(lost) - NAMED} more"] if len(lost) > NAMED else []
    return "\n  ".join(
        [
            NO_RESULT(points=whole),
            *(point.words for point in lost[:NAMED]),
            *more,
        ]
    )
