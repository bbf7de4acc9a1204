"""How fast the host is at another time than in a study: steps of the study's scales that trained again."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.metrics.scaling.scales import POINT_SETTINGS, STEP
from hpcai.predict.scales.parts import Floats
from hpcai.predict.what_if.intervals import Variance
from hpcai.predict.what_if.measured import Point
from hpcai.records.files import find_records, read_record
from hpcai.records.run import RunRecord

AT_SPEED = Message(
    "host_speed.at_speed",
    "at the host's speed in {n} later trainings ({disturbed} disturbed; of {found} records): {ratio:.3g} times the "
    "study's steps ({low:.3g} to {high:.3g})",
)
AT_ONE = Message(
    "host_speed.at_one",
    "at the host's speed in one later training ({disturbed} disturbed; of {found} records): {ratio:.3g} times the "
    "study's step; several would tell how it scatters",
)
SPREAD = Message("host_speed.spread", "the spread of {n} ratios of the host's speed")
NONE_FITS = Message(
    "host_speed.none_fits",
    "none of {found} records tells the host's speed ({reasons}), expected timed trainings of this study's scales, on "
    "its machine, made after it",
)
UNTIMED = Message("host_speed.untimed", "{n} without a step of a timed training")
OTHER_SCALE = Message("host_speed.other_scale", "{n} of scales that the study lacks")
OTHER_MACHINE = Message("host_speed.other_machine", "{n} of other machines")
EARLIER = Message("host_speed.earlier", "{n} made not after the study's own")


@dataclass(frozen=True)
class Again:
    """A scale of a study that trained again.

    Attributes
    ----------
    step_s, study_step_s
        Median step of this training, and the step in the study [s].
    started_s
        Start, on the clock of all that are compared [s].
    scale
        Benchmark, variant, nodes x ranks per node.
    source
        Its record.
    disturbed
        Whether others took more of the machine meanwhile than its study allowed.
    """

    step_s: float
    study_step_s: float
    started_s: float
    scale: str = ""
    source: str = ""
    disturbed: bool = False

    @property
    def ratio(self) -> float:
        """How many times as long a step took as in the study."""
        return self.step_s / self.study_step_s


@dataclass(frozen=True)
class HostSpeed:
    """What steps take over what they took in the study, by trainings of the same scales; without any, 1.

    Attributes
    ----------
    trainings
        What tells it, in the order of time.
    found
        Records that were looked at.
    """

    trainings: tuple[Again, ...] = ()
    found: int = 0

    @property
    def ratio(self) -> float:
        """Geometric mean of the trainings' ratios."""
        return math.exp(self._logs.mean()) if self.trainings else 1.0

    @property
    def variance(self) -> Variance:
        """Of the logarithm of one more training's ratio to this mean; one training tells nothing of it."""
        n = len(self.trainings)
        return Variance(float(self._logs.var(ddof=1)) * (1 + 1 / n), n - 1, SPREAD(n=n)) if n > 1 else Variance()

    def at_times(self, started_s: Floats) -> Floats:
        """Return the ratio at other times [s]: on the line of logarithms between the nearest two trainings."""
        return np.asarray(np.exp(np.interp(started_s, [one.started_s for one in self.trainings], self._logs)))

    @property
    def words(self) -> str:
        """What it is and what tells it; blank without trainings."""
        ratios = [one.ratio for one in self.trainings]
        disturbed = sum(one.disturbed for one in self.trainings)
        facts = {"ratio": self.ratio, "found": self.found, "disturbed": disturbed}
        if len(ratios) < 2:
            return AT_ONE(**facts) if ratios else ""
        return AT_SPEED(**facts, n=len(ratios), low=min(ratios), high=max(ratios))

    @property
    def _logs(self) -> Floats:
        return np.asarray(np.log([one.ratio for one in self.trainings]))


def read_host_speed(places: Sequence[Path], points: Sequence[Point], runs: pd.DataFrame) -> HostSpeed:
    """Return the host's speed from trainings that were made after a study.

    Parameters
    ----------
    places
        Files ``record.json``, folders of runs or results folders.
    points
        Scales of the study.
    runs
        Its table of runs, which tells machine and time.

    Raises
    ------
    RecordError
        If a record is damaged.
    ConfigError
        If none is of a scale of the study, on its machine, and later.
    """
    files = list(dict.fromkeys(file.resolve() for place in places for file in find_records(place)))
    fits = [_fit(read_record(file), str(file), points, runs) for file in files]
    trainings = sorted((one for one in fits if isinstance(one, Again)), key=lambda one: one.started_s)
    if not trainings:
        reasons = Counter(one for one in fits if isinstance(one, Message))
        words = "; ".join(reason(n=n) for reason, n in reasons.items()) or "no record.json"
        raise ConfigError(at(", ".join(map(str, places)), NONE_FITS(found=len(files), reasons=words)))
    return HostSpeed(tuple(trainings), len(files))


def _fit(record: RunRecord, source: str, points: Sequence[Point], runs: pd.DataFrame) -> Again | Message:
    """Return a record as a training of a study's scale, or why it is none."""
    plan, step_s = record.plan, record.training.step_time_median_s if record.training else None
    if plan.kind != "timed" or not step_s:
        return UNTIMED
    point = next(_alike(plan, points), None)
    if point is None:
        return OTHER_SCALE
    own = runs[(runs[POINT] == [point.row[name] for name in POINT]).all(axis=1)]
    if plan.machine.name not in set(own["machine"]):
        return OTHER_MACHINE
    if record.started_utc <= max(own["started_utc"]):
        return EARLIER
    started_s = pd.Timestamp(record.started_utc).timestamp()
    scale = f"{point.benchmark} {point.variant} {point.scale}"
    return Again(step_s, point.step_s, started_s, scale, source, record.is_disturbed)


def _alike(plan: RunPlan, points: Sequence[Point]) -> Iterator[Point]:
    """Yield the scales with the settings of a plan, that of the same variant first."""
    names = ("benchmark", "nodes", "ranks_per_node", *POINT_SETTINGS)
    settings = {name: getattr(plan.point, name) for name in names}
    settings |= dict(zip(STEP, (plan.global_batch, plan.part_bytes), strict=True))
    for point in sorted(points, key=lambda one: one.variant != plan.point.variant):
        cells = {name: point.row[name] for name in settings if name in point.row}
        if all(pd.isna(cell) if settings[name] is None else cell == settings[name] for name, cell in cells.items()):
            yield point
