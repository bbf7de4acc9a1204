"""Trainings that were measured besides a study's: their errors give intervals to questions of the same kind."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.predict.scales.held_out import OTHERS, Case
from hpcai.predict.scales.measured import MeasuredScales
from hpcai.predict.scales.model import Asked
from hpcai.predict.scales.starts import predict_from_all, say_scales, usual_scale
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting

UNREADABLE = Message(
    "trained.unreadable", "not read ({reason}), expected a table that `bench_scale_cases.py --table FILE` wrote"
)
BAD_CELL = Message(
    "trained.bad_cell",
    "{column}: found {found!r} ({problem}), expected a table that `bench_scale_cases.py --table FILE` wrote",
)
OTHER_STUDY = Message(
    "trained.other_study",
    "none of {found} trainings can be predicted from this study, expected its benchmarks and precisions",
)


class TrainedCase(BaseModel):
    """A training on one node, and its measured step; other columns of its table are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    benchmark: str
    precision: str
    ranks: int = Field(ge=1)
    global_batch: int = Field(ge=1)
    accumulation: int = Field(ge=1)
    gradient_groups: int = Field(ge=1)
    fusion_bytes: float | None = Field(gt=0, description="None: messages as the groups say.")
    cycle_time_s: float | None = Field(gt=0, description="Of Horovod; None: the usual one.")
    measured_s: float = Field(gt=0, allow_inf_nan=False, description="Median step.")
    host_ratio: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="What steps took at that time, over the study's."
    )

    @field_validator("fusion_bytes", "cycle_time_s", "host_ratio", mode="before")
    @classmethod
    def _blank(cls, value: object) -> object:
        return None if value == "" else value


def read_trained(file: Path) -> tuple[TrainedCase, ...]:
    """Read measured trainings from a CSV file.

    Raises
    ------
    ConfigError
        If it cannot be read, or a row is no measured training.
    """
    try:
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(at(str(file), UNREADABLE(reason=type(error).__name__))) from error
    if not rows:
        raise ConfigError(at(str(file), UNREADABLE(reason="no row")))
    return tuple(_parse(row, f"{file}, row {number}") for number, row in enumerate(rows, 1))


def _parse(row: dict[str, Any], place: str) -> TrainedCase:
    try:
        return TrainedCase.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = str(first["loc"][0]) if first["loc"] else ""
        words = BAD_CELL(column=column, found=row.get(column), problem=first["msg"])
        raise ConfigError(at(place, words)) from error


def predict_trained(
    measured: MeasuredScales, trained: Sequence[TrainedCase], at_study_speed: bool = False
) -> list[Case]:
    """Predict trainings as a user would ask for them; those that a study says nothing of are left out.

    Parameters
    ----------
    measured
        The study.
    trained
        Measured trainings.
    at_study_speed
        Whether their steps are taken over their ``host_ratio`` where they have one: where the host's speed is told
        otherwise, its changes would count twice.

    Raises
    ------
    ConfigError
        If the study says nothing of any.
    """
    cases = []
    for one in trained:
        which = (one.benchmark, one.precision)
        alike = [point for point in measured.points if (point.benchmark, point.setting.precision) == which]
        if not alike:
            continue
        base = usual_scale(alike)
        own = [point for point in measured.points if (point.benchmark, point.engine) == (base.benchmark, base.engine)]
        ratio = one.host_ratio or 1.0 if at_study_speed else 1.0
        target = Point(base.row, _setting(base, one), one.measured_s / ratio)
        asked = Asked(target.setting, math.nan if one.cycle_time_s is None else one.cycle_time_s)
        starts, step = predict_from_all(measured, own, asked)
        cases.append(Case(OTHERS, say_scales(starts), target, step))
    if not any(math.isfinite(case.found.step_s) for case in cases):
        raise ConfigError(OTHER_STUDY(found=len(trained)))
    return cases


def _setting(base: Point, one: TrainedCase) -> Setting:
    names = ("ranks", "global_batch", "accumulation", "gradient_groups", "fusion_bytes")
    changes = {name: getattr(one, name) for name in names}
    return replace(base.setting, nodes=1, compression="none", **changes)
