"""Decide when a training ends and with which outcome; pure, so that all ranks decide alike."""

import math
from dataclasses import dataclass
from typing import Literal

from hpcai.core.messages import Message
from hpcai.records.run import reaches

LOSS_LOST = Message("stopping.loss_lost", "training loss {loss} in {where}")
PROFILED = Message("stopping.profiled", "profiled run: ended as planned after {steps} training steps")


@dataclass(frozen=True)
class Goal:
    """The target quality, and the maximum number of epochs and steps.

    With ``fixed_epochs`` reaching the target does not end a training (HPC AI500 V2.0, 6.1: fixed number of epochs).
    """

    metric: str
    target: float
    higher_is_better: bool
    max_epochs: int
    max_steps: int | None = None
    fixed_epochs: bool = False

    def reached(self, quality: float) -> bool:
        """Whether the target is met; an error of exactly zero is rejected (MLPerf's checker demands > 0)."""
        return reaches(quality, self.target, higher_is_better=self.higher_is_better)


@dataclass(frozen=True)
class Progress:
    """State of a training so far."""

    epoch: int
    steps: int
    train_loss: float
    quality: float | None


@dataclass(frozen=True)
class Verdict:
    """How a training ended."""

    outcome: Literal["converged", "not_converged", "diverged"]
    reason: str


def judge(goal: Goal, progress: Progress) -> Verdict | None:
    """Return how the training ends here, or None if it continues.

    Only training loss and quality are judged: NaN elsewhere does not end a training.
    """
    where = f"epoch {progress.epoch}, step {progress.steps}"
    if not math.isfinite(progress.train_loss):
        return Verdict("diverged", LOSS_LOST(loss=progress.train_loss, where=where))
    if progress.quality is not None:
        if not math.isfinite(progress.quality):
            return Verdict("diverged", f"{goal.metric} {progress.quality} after epoch {progress.epoch}")
        if goal.reached(progress.quality) and (not goal.fixed_epochs or progress.epoch >= goal.max_epochs):
            sign = ">=" if goal.higher_is_better else "<="
            reason = f"{goal.metric} {progress.quality:.6g} {sign} {goal.target:g} after epoch {progress.epoch}"
            return Verdict("converged", reason)
    if goal.max_steps is not None and progress.steps >= goal.max_steps:
        return Verdict("not_converged", PROFILED(steps=progress.steps))
    if progress.quality is not None and progress.epoch >= goal.max_epochs:
        reason = f"{goal.metric} {progress.quality:.6g} after the last epoch, {progress.epoch}; target {goal.target:g}"
        return Verdict("not_converged", reason)
    return None
