"""One captured profile: its configuration, its verified raw files, and the times of its steps."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import ParseError
from hpcai.records.files import RAW, check_artefact, check_raw_file, read_part, read_record
from hpcai.records.run import Artefact, Capture, RunRecord

IDENTITY = ("run_id", *POINT, "nodes", "ranks")
"""Columns that identify a row's configuration; every view begins with them."""


@dataclass(frozen=True)
class Profile:
    """A folder of results/profiles with its capture."""

    folder: Path
    capture: Capture

    @classmethod
    def at(cls, path: Path) -> "Profile":
        """Return the profile to which this capture.json belongs."""
        return cls(path.parent, read_part(Capture, path))

    @cached_property
    def plan(self) -> RunPlan:
        """The requested run: from the checked record or, without a run, from the workflow's plan."""
        if self.capture.status == "measured":
            return self.record.plan
        return read_plan(self.folder / "plan.json")

    @cached_property
    def record(self) -> RunRecord:
        """The record of the profiled run."""
        return read_record(self.folder / "record.json")

    @property
    def identity(self) -> dict[str, str | int]:
        """Values of the identity columns."""
        point = self.plan.point
        return {"run_id": self.plan.run_id, **{name: getattr(point, name) for name in IDENTITY[1:]}}

    def files(self, ending: str) -> list[Path]:
        """Return the raw files with this ending after verifying that they are unchanged.

        Raises
        ------
        ParseError
            If a file was changed or lost since the capture: no flipped bit may become a number.
        """
        return [self._checked(one) for one in self.capture.raw if one.path.endswith(ending)]

    def has(self, name: str) -> bool:
        """Return whether a raw file was captured."""
        return any(one.path.endswith(f"/{name}") for one in self.capture.raw)

    def file(self, name: str) -> Path:
        """Return one raw file.

        Raises
        ------
        ParseError
            If it was not captured, or was changed or lost since.
        """
        found = self.files(f"/{name}")
        if not found:
            raise ParseError(f"{self.folder}: {self.capture.tool} left no {name}; see raw/output.log")
        return found[0]

    def _checked(self, artefact: Artefact) -> Path:
        return check_artefact(self.folder / artefact.path, artefact, self.folder, "captured")

    def steps(self) -> pd.DataFrame:
        """Return the training steps of rank 0: ``epoch``, ``start_s`` (seconds since 1970) and ``duration_s``.

        Steps have monotonic time stamps; clocks.json has both clocks at one moment of the run.
        """
        clocks = json.loads(check_raw_file(self.record, self.folder / RAW / "clocks.json").read_text())
        steps = self._monotonic_steps()
        return steps.assign(start_s=steps["start_s"] - clocks["monotonic_s"] + clocks["wall_s"])

    def profiled_steps(self) -> pd.DataFrame:
        """Return the steps seen by a kernel profiler: those after the warm-up, up to the end of their epoch."""
        steps = self.steps().iloc[WARM_STEPS:]
        return steps[steps["epoch"] == steps["epoch"].iloc[0]] if len(steps) else steps

    def training_windows_s(self, *, wall_clock: bool = False) -> list[tuple[float, float]]:
        """Return start and end of each epoch's training steps [s], without evaluations.

        They are on the monotonic clock of rank 0's node, or on the wall clock: seconds since 1970.
        """
        steps = self.steps() if wall_clock else self._monotonic_steps()
        epochs = steps.groupby("epoch", sort=True)
        ends = ((part.iloc[0], part.iloc[-1]) for _, part in epochs)
        return [(float(first["start_s"]), float(last["start_s"] + last["duration_s"])) for first, last in ends]

    def _monotonic_steps(self) -> pd.DataFrame:
        steps = pd.read_csv(check_raw_file(self.record, self.folder / RAW / "steps.csv"))
        return steps[["epoch", "start_s", "step_time_s"]].rename(columns={"step_time_s": "duration_s"})

    def with_identity(self, view: pd.DataFrame, source: Path | str) -> pd.DataFrame:
        """Return a view with the identity columns first and its raw file, or files, last."""
        named = view.copy()
        for place, (name, value) in enumerate({**self.identity, "source": str(source)}.items()):
            named.insert(place, name, value)
        return named
