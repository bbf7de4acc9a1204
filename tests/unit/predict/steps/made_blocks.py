"""Made reports of blocks."""

from typing import Any

from hpcai.core.disturbance import Disturbance
from hpcai.predict.steps.report import BlocksReport, BlockTime, StepTimes


def make_block(**changes: Any) -> BlockTime:
    facts = {"name": "a/Conv2D", "kind": "convolution", "count": 3, "operations": 7, "work_flop": 90.0}
    return BlockTime(**{**facts, "moved_bytes": 10.0, "time_s": 1.0, **changes})


def make_step(*blocks: BlockTime, **changes: Any) -> StepTimes:
    facts = {"network": "net", "origin": "benchmark", "batch": 8, "step_s": 4.0, "update_s": 0.5, "rounds": 5}
    return StepTimes(**{**facts, "blocks": blocks or (make_block(),), **changes})


def make_report(*steps: StepTimes, others_s: float = 0.0) -> BlocksReport:
    watched = Disturbance(node="n", cores=2, wall_s=10.0, others_s=others_s, steal_s=0.0)
    return BlocksReport(processor="p", software="s", wall_s=10.0, steps=steps or (make_step(),), disturbance=(watched,))
