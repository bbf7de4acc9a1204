"""The times of training steps."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from unit.training.training_plans import make_plan

from hpcai.training import loop
from hpcai.training.collectives.base import Ranks
from hpcai.training.loop import Outputs, Training


def test_the_last_step_ends_before_the_profiler_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping a profiler writes its trace, which may take seconds: no part of a step."""
    clock = [0.0]

    def spend(seconds: float, result: float | None = None) -> float | None:
        clock[0] += seconds
        return result

    monkeypatch.setattr(loop, "monotonic_s", lambda: clock[0])
    profiler = MagicMock()
    profiler.close.side_effect = lambda: spend(100.0)
    workload = MagicMock(plan=make_plan(), higher_is_better=False)
    outputs = Outputs(journal=MagicMock(), log=MagicMock(), profiler=profiler)
    training = Training(workload, Ranks(0, 1, 0, 1, 0, 1), MagicMock(), outputs)
    training._engine = SimpleNamespace(set_learning_rate=MagicMock(), train=lambda _: spend(1.0, 0.5))
    steps = training._train_steps(iter([MagicMock()] * 8))
    assert [step.step_time_s for step in steps] == [1.0] * len(steps)
    assert len(steps) == training._plan.epoch_steps
    profiler.close.assert_called_once()


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, [None, None]),
        ({"point": {"precision": "bf16"}}, [None, None]),
        ({"point": {"precision": "fp16"}}, [3, 2]),
        ({"recipe": {"skip_gradient_norm": 1.0}}, [3, 2]),
    ],
    ids=["fp32", "bf16", "fp16", "skipping"],
)
def test_an_epoch_has_the_steps_that_were_skipped_in_it(
    changes: dict[str, dict[str, object]], counted: list[int | None]
) -> None:
    workload = MagicMock(plan=make_plan(**changes), higher_is_better=False)
    workload.learning_rate.return_value = 0.1
    outputs = Outputs(journal=MagicMock(), log=MagicMock(), profiler=MagicMock())
    training = Training(workload, Ranks(0, 1, 0, 1, 0, 1), MagicMock(), outputs)
    training._evaluate = lambda _: (0.9, 7)
    found = []
    for epoch, skipped_so_far in ((1, 3), (2, 5)):
        training._engine = SimpleNamespace(
            set_learning_rate=MagicMock(), train=lambda _: 0.5, skipped_steps=skipped_so_far
        )
        found.append(training._epoch(epoch, iter([MagicMock()] * 8))[0].skipped_steps)
    assert found == counted
