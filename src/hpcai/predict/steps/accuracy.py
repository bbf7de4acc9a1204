"""Training steps as the sum of their measured blocks, compared with the same steps measured whole."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.disturbance import Tolerance
from hpcai.core.messages import Message
from hpcai.core.text_table import say_table
from hpcai.metrics.quietness import DISTURBED, judge_quiet
from hpcai.metrics.run_tables import join_tables
from hpcai.metrics.scaling.model_limits import why_not_covered
from hpcai.predict.steps.report import BlocksReport, BlockTime, StepTimes

MEDIAN_GOAL_RATIO, WORST_GOAL_RATIO = 0.03, 0.08
"""Goals for the absolute relative error over all steps: median and maximum."""
WALL_GOAL_S = 180.0
"""For timing the blocks of all steps."""
STEP_COLUMNS = columns_of("block_steps")
BLOCK_COLUMNS = columns_of("block_times")
SAMPLE_COLUMNS = columns_of("block_samples")
NO_UPDATE = Message("steps.no_update", "the optimizer's update was not measured")
NO_ERROR = Message("steps.no_error", "no step of {steps} was both predicted and measured")
ERRORS = Message(
    "steps.errors",
    "{known} of {steps} steps: median error {median:.1%} (goal {median_goal:.0%}), largest {worst:.1%} (goal "
    "{worst_goal:.0%})",
)
SAID_DISTURBED = Message(
    "steps.disturbed",
    "disturbed: others took {others:.1%} of the cores, at most {most:.1%} may be; measure again",
)


WALL = Message("steps.wall", "{wall_s:.0f} s (goal {goal_s:.0f} s: {verdict}); machine: {quiet}")


@dataclass(frozen=True)
class BlockSum:
    """The blocks and the update of one step, summed.

    Attributes
    ----------
    gradients_s
        Modelled: measured blocks times their numbers, and the arguments of a call [s]; NaN where `reason` says why.
    update_s
        Of the measured update [s].
    covered_ratio
        Share of the step's work in blocks with a time: of its arithmetic, or of the bytes of its blocks, whichever is
        smaller.
    """

    gradients_s: float
    update_s: float
    covered_ratio: float
    reason: str

    @property
    def step_s(self) -> float:
        """Both, one after the other [s]."""
        return self.gradients_s + self.update_s


def sum_blocks(step: StepTimes) -> BlockSum:
    """Return the estimate of a step; none if the update, or a tenth of the work, has no time."""
    covered = min((_share(step, what) for what in ("work_flop", "moved_bytes")), default=math.nan)
    reason = step.reason or why_not_covered(covered) or ("" if step.update_s else NO_UPDATE())
    if reason or step.update_s is None:
        return BlockSum(math.nan, math.nan, covered, reason)
    blocks_s = sum(one.count * one.time_s for one in step.blocks if one.time_s is not None)
    return BlockSum(blocks_s + (step.arguments_s or 0.0), step.update_s, covered, "")


def _share(step: StepTimes, what: str) -> float:
    total = sum(one.count * getattr(one, what) for one in step.blocks)
    timed = sum(one.count * getattr(one, what) for one in step.blocks if one.time_s is not None)
    if total:
        return float(timed / total)
    return 1.0 if step.blocks else math.nan


def collect_block_steps(report: BlocksReport, tolerance: Tolerance, source: str) -> pd.DataFrame:
    """Return table ``block_steps``: each step predicted and measured.

    Parameters
    ----------
    report
        The measurements.
    tolerance
        Tolerated disturbance.
    source
        Location of the report.
    """
    quiet = asdict(judge_quiet(report.disturbance, tolerance))
    facts = {**quiet, "method": "modelled", "source": source}
    ratios, _ = report.host_ratios()
    rows = [{**_step_row(step), "host_ratio": ratio, **facts} for step, ratio in zip(report.steps, ratios, strict=True)]
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS)).astype({"within_goal": "boolean"})


def _step_row(step: StepTimes) -> dict[str, Any]:
    found = sum_blocks(step)
    measured_s = math.nan if step.step_s is None else step.step_s
    error = found.step_s / measured_s - 1
    return {
        "network": step.network,
        "origin": step.origin,
        "batch": step.batch,
        "optimizer": step.optimizer,
        "distinct_blocks": len(step.blocks),
        "blocks": sum(one.count for one in step.blocks),
        "predicted_s": found.step_s,
        "update_s": math.nan if step.update_s is None else step.update_s,
        "arguments_s": math.nan if step.arguments_s is None else step.arguments_s,
        "measured_s": measured_s,
        "rounds": step.rounds,
        "relative_error_ratio": error,
        "goal_ratio": WORST_GOAL_RATIO,
        "within_goal": pd.NA if math.isnan(error) else abs(error) <= WORST_GOAL_RATIO,
        "covered_ratio": found.covered_ratio,
        "reason": found.reason,
    }


def collect_block_times(report: BlocksReport, source: str) -> pd.DataFrame:
    """Return table ``block_times``: each distinct block of each step.

    Parameters
    ----------
    report
        The measurements.
    source
        Location of the report.
    """
    ratios, _ = report.host_ratios()
    rows = [
        {
            "network": step.network,
            "batch": step.batch,
            "host_ratio": ratio,
            "block_count": block.count,
            "share_ratio": share_of_step(step, block.count, block.time_s),
            **_block_row(block),
            "method": report.method,
            "source": source,
        }
        for step, ratio in zip(report.steps, ratios, strict=True)
        for block in step.all_blocks
    ]
    return pd.DataFrame(rows, columns=list(BLOCK_COLUMNS))


def collect_block_samples(report: BlocksReport, source: str) -> pd.DataFrame:
    """Return table ``block_samples``: each block of random sizes.

    Parameters
    ----------
    report
        What was measured.
    source
        Where the report is.
    """
    _, ratios = report.host_ratios()
    rows = [
        {**_block_row(block), "host_ratio": ratio, "method": report.method, "source": source}
        for part, ratio in zip(report.samples, ratios, strict=True)
        for block in part.blocks
    ]
    return pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS))


def _block_row(block: BlockTime) -> dict[str, Any]:
    return {
        "block": block.name,
        "kind": block.kind,
        "operation_count": block.operations,
        "work_flop": block.work_flop,
        "moved_bytes": block.moved_bytes,
        "time_s": math.nan if block.time_s is None else block.time_s,
        "reason": block.reason,
    }


def share_of_step(step: StepTimes, count: int, time_s: float | None) -> float:
    """Return what a time [s], so many times, is of the measured step; NaN if either was not measured."""
    return math.nan if time_s is None or not step.step_s else count * time_s / step.step_s


def tabulate_blocks(reports: Mapping[str, BlocksReport], tolerance: Tolerance) -> dict[str, pd.DataFrame]:
    """Return the tables ``block_steps``, ``block_times`` and ``block_samples`` of reports.

    Parameters
    ----------
    reports
        Measured blocks, by where the report is; without any, the tables are empty.
    tolerance
        Tolerated disturbance.
    """
    steps = [collect_block_steps(report, tolerance, source) for source, report in reports.items()]
    times = [collect_block_times(report, source) for source, report in reports.items()]
    samples = [collect_block_samples(report, source) for source, report in reports.items()]
    return {
        "block_steps": join_tables([pd.DataFrame(columns=list(STEP_COLUMNS)), *steps]),
        "block_times": join_tables([pd.DataFrame(columns=list(BLOCK_COLUMNS)), *times]),
        "block_samples": join_tables([pd.DataFrame(columns=list(SAMPLE_COLUMNS)), *samples]),
    }


def describe_goals(steps: pd.DataFrame) -> str:
    """Report median and largest absolute error of table ``block_steps``, with their goals."""
    errors = steps["relative_error_ratio"].abs().dropna()
    if errors.empty:
        return NO_ERROR(steps=len(steps))
    facts = {"median": float(errors.median()), "worst": float(errors.max())}
    goals = {"median_goal": MEDIAN_GOAL_RATIO, "worst_goal": WORST_GOAL_RATIO}
    return ERRORS(known=len(errors), steps=len(steps), **facts, **goals)


def print_steps(report: BlocksReport, tolerance: Tolerance) -> str:
    """Return the table of steps for a terminal; the last line mentions disturbance of the machine."""
    steps = collect_block_steps(report, tolerance, "")
    cells = [
        [
            row["network"], str(row["batch"]), f"{row['distinct_blocks']} of {row['blocks']}",
            _percent(row["covered_ratio"]), _ms(row["predicted_s"]), _ms(row["measured_s"]),
            "" if math.isnan(row["relative_error_ratio"]) else f"{row['relative_error_ratio']:+.1%}", row["reason"],
        ]
        for row in steps.to_dict("records")
    ]  # fmt: skip
    heads = ["network", "batch", "distinct blocks", "covered", "predicted ms", "measured ms", "error", "why not"]
    quiet = judge_quiet(report.disturbance, tolerance)
    taken = max(quiet.others_ratio, quiet.steal_ratio)
    said = SAID_DISTURBED(others=taken, most=tolerance.others_ratio) if quiet.quiet == DISTURBED else quiet.quiet
    verdict = "met" if report.wall_s <= WALL_GOAL_S else "missed"
    lines = [
        say_table(heads, cells, kinds="knnnnnnw"),
        describe_goals(steps),
        WALL(wall_s=report.wall_s, goal_s=WALL_GOAL_S, verdict=verdict, quiet=said),
    ]
    return "\n".join(lines)


def _percent(ratio: float) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.0%}"


def _ms(time_s: float) -> str:
    return "" if math.isnan(time_s) else f"{1e3 * time_s:.2f}"
