"""The end of a rank: what it does after its training, and in which order."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from unit.training.training_plans import make_plan

from hpcai.core.errors import LaunchError, StagingError
from hpcai.records.run import Placement
from hpcai.training import rank
from hpcai.training.collectives.base import Ranks

RANKS = 2


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What rank 0 of two does, one after the other; nothing is trained."""
    found: list[str] = []

    def noting(name: str) -> MagicMock:
        return MagicMock(side_effect=lambda *_: found.append(name))

    exchanges = {name: noting(name) for name in ("barrier", "stop")}
    own = Ranks(0, RANKS, 0, RANKS, 0, 1)
    monkeypatch.setattr(rank, "collective", SimpleNamespace(start=lambda *_: own, **exchanges))
    monkeypatch.setattr(rank, "Dataset", MagicMock(return_value=MagicMock(clean=noting("clean"))))
    training = MagicMock()
    training.return_value.run.return_value = (MagicMock(), MagicMock(), "")
    monkeypatch.setattr(rank, "Training", training)
    monkeypatch.setattr(rank, "write_json", lambda _, path: found.append(path.name))
    for name in ("steps_of", "Journal", "MlperfLog", "step_profiler", "ResourceSampler", "workload_of", "_report"):
        monkeypatch.setattr(rank, name, MagicMock())
    return found


def end_a_run(folder: Path) -> None:
    names = ("manifest", "pack", "scratch", "shared_scratch", "page_cache", "step_profiler")
    arguments = argparse.Namespace(raw=folder, **dict.fromkeys(names))
    placement = MagicMock(spec=Placement, local_rank=0, threads=1)
    placement.model_copy.return_value = placement
    rank.run_rank(arguments, make_plan(RANKS), placement, 0.0)


def test_the_result_is_written_and_the_others_may_leave_before_staged_data_are_removed(events, tmp_path) -> None:
    end_a_run(tmp_path)
    assert events == ["rank0.json", "barrier", "training.json", "stop", "clean"]


@pytest.mark.parametrize(
    ("step", "done"), [("barrier", ["rank0.json"]), ("stop", ["rank0.json", "barrier", "training.json"])]
)
def test_staged_data_are_removed_when_the_others_do_not_come(
    events, tmp_path, monkeypatch: pytest.MonkeyPatch, step: str, done: list[str]
) -> None:
    monkeypatch.setattr(rank.collective, step, MagicMock(side_effect=LaunchError("none came")))
    with pytest.raises(LaunchError):
        end_a_run(tmp_path)
    assert events == [*done, "clean"]


def test_a_result_outlasts_data_that_cannot_be_removed(events, tmp_path) -> None:
    rank.Dataset.return_value.clean.side_effect = StagingError("a failing disk")
    with pytest.raises(StagingError):
        end_a_run(tmp_path)
    assert "training.json" in events
