"""The stop rule."""

import math

import pytest

from hpcai.training import stopping
from hpcai.training.stopping import Goal, Progress, judge

ERROR = Goal("mean_absolute_error", 0.124, higher_is_better=False, max_epochs=3)
ACCURACY = Goal("accuracy", 0.8, higher_is_better=True, max_epochs=3)
FIXED = Goal("accuracy", 0.8, higher_is_better=True, max_epochs=3, fixed_epochs=True)
PROFILED = Goal("mean_absolute_error", 0.124, higher_is_better=False, max_epochs=3, max_steps=5)


@pytest.mark.parametrize(
    ("goal", "progress", "outcome"),
    [
        (ERROR, Progress(1, 8, 0.1, 0.124), "converged"),
        (ERROR, Progress(1, 8, 0.1, 0.1240001), None),
        (ERROR, Progress(3, 24, 0.1, 0.2), "not_converged"),
        (ERROR, Progress(3, 24, 0.1, 0.1), "converged"),
        (ERROR, Progress(1, 8, 0.1, 0.0), None),  # an error of exactly zero is rejected
        (ERROR, Progress(1, 8, math.nan, None), "diverged"),
        (ERROR, Progress(1, 8, math.inf, 0.1), "diverged"),
        (ERROR, Progress(1, 8, 0.1, math.nan), "diverged"),
        (ERROR, Progress(3, 20, 0.1, None), None),  # the last epoch is evaluated before the verdict
        (ACCURACY, Progress(1, 8, 0.1, 0.8), "converged"),
        (ACCURACY, Progress(1, 8, 0.1, 0.79), None),
        (FIXED, Progress(1, 8, 0.1, 0.9), None),
        (FIXED, Progress(3, 24, 0.1, 0.9), "converged"),
        (FIXED, Progress(3, 24, 0.1, 0.7), "not_converged"),
        (PROFILED, Progress(1, 4, 0.1, None), None),
        (PROFILED, Progress(1, 5, 0.1, None), "not_converged"),
        (PROFILED, Progress(1, 5, math.nan, None), "diverged"),
    ],
)
def test_verdict(goal: Goal, progress: Progress, outcome: str | None) -> None:
    verdict = judge(goal, progress)
    assert (verdict.outcome if verdict else None) == outcome


def test_reasons_say_what_happened() -> None:
    verdicts = [
        judge(ERROR, Progress(2, 16, 0.1, 0.12)),
        judge(ERROR, Progress(2, 13, math.nan, None)),
        judge(PROFILED, Progress(1, 5, 0.1, None)),
    ]
    reasons = [verdict.reason for verdict in verdicts if verdict]
    assert reasons == [
        "mean_absolute_error 0.12 <= 0.124 after epoch 2",
        stopping.LOSS_LOST(loss=math.nan, where="epoch 2, step 13"),
        stopping.PROFILED(steps=5),
    ]
