"""A study whose steps follow the model exactly, so that each prediction can be checked by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
from unit.predict.steps.made_blocks import make_block, make_step
from unit.predict.what_if import studies

from hpcai.predict.messages import Gradients
from hpcai.predict.scales.measured import MeasuredScales
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import setting_of

PARAMETERS = 1000
"""4,000 bytes in one message, 1,000 in each of four."""
GRADIENTS = Gradients(PARAMETERS, (PARAMETERS // 4,) * 4)
CONTENTION, SLOWEST, CALL_S, TRANSFER_S, WORK_S = 1.25, 1.1, 0.010, 0.002, 0.0005
"""Calls of any size take as long; a transfer takes `WORK_S` at best."""
IN_TRAINING = 1.5
"""Calls in trainings over calls by themselves."""
UPDATE_S, INPUT_S = 0.5, 0.05
"""Of a step; and of each of its samples."""


def timed_s(batch: int) -> float:
    return batch / 4 + UPDATE_S


def alone_s(batch: int) -> float:
    return timed_s(batch) + INPUT_S * batch


def step_s(ranks: int, batch: int) -> float:
    own_s = alone_s(batch // ranks)
    return own_s if ranks == 1 else own_s * CONTENTION * SLOWEST + IN_TRAINING * CALL_S


def make_point(benchmark: str, ranks: int, batch: int, **changes: Any) -> Point:
    row = studies.scale(
        ranks, batch, step_s(ranks, batch), **{"benchmark": benchmark, "cycle_time_s": math.nan, **changes}
    )
    return Point(row, setting_of(row), float(row["step_time_median_s"]))


def links() -> pd.DataFrame:
    rows = [
        {
            "what": what,
            "engine": "horovod",
            "scope": "node",
            "ranks": 2,
            "bytes": size,
            "time_s": time_s,
            "time_min_s": best_s,
        }
        for size in (4, 100_000)
        for what, time_s, best_s in (("call", CALL_S, CALL_S / 2), ("transfer", TRANSFER_S, WORK_S))
    ]
    return pd.DataFrame(rows)


def groups() -> pd.DataFrame:
    shared = {"ranks": 1, "instances": 2, "contention_ratio": 1 / CONTENTION}
    return pd.DataFrame([{"benchmark": benchmark, **shared} for benchmark in ("one", "two")])


def make_measured(*points: Point, **changes: Any) -> MeasuredScales:
    names = ("one", "two", "three")
    steps = tuple(
        make_step(
            make_block(count=1, time_s=batch / 4),
            network=name,
            batch=batch,
            step_s=batch / 4 + UPDATE_S,
            update_s=UPDATE_S,
            parameters=PARAMETERS,
            gradient_sizes=GRADIENTS.sizes,
        )
        for name in names
        for batch in (4, 8)
    )
    made = points or tuple(make_point(name, ranks, 8) for name in names for ranks in (1, 2))
    scatter = dict.fromkeys(names, np.array([1.0] * 70 + [SLOWEST] * 30))
    facts = {"points": made, "steps": steps, "contention": groups(), "links": links(), "scatter": scatter}
    return MeasuredScales(**{**facts, "shared_core": True, "sources": ("scales.parquet",), **changes})
