"""Start the processes that time training steps and model their traffic; handle their failures."""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import RunPlan
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.core.programs import last_words, say_ending
from hpcai.machine.steps.report import MODULE, OUTPUT, PLAN, PROGRAM, StepPrecision, StepReport, report_path
from hpcai.machine.work.step import WorkReport
from hpcai.records.files import read_part

ENDED = Message("steps.ended", "the process {ending}: {words}; see {log}")
TIME_UP = Message("steps.time_up", "the process was ended after {limit_s:g} s; see {log}")
LONGEST_S = 1200.0
"""Time limit [s]; compiling a network of official size takes minutes."""
DUMP = "--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*_train.*"
"""XLA's flags that make it write the timed program as it compiled it for the device."""
NO_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|out of memory|\bOOM\b", re.IGNORECASE)
Report = TypeVar("Report", bound=BaseModel)


class TooLargeError(LaunchError):
    """A batch that does not fit the device's memory."""


@dataclass(frozen=True)
class Case:
    """One benchmark in one precision.

    Attributes
    ----------
    plan
        Single-rank plan.
    engine, precision
        Engine and precision of the computation, as in the plan.
    batch
        Samples per step.
    seconds
        Time for all timed steps together [s].
    folder
        Receives all files of the case.
    """

    plan: RunPlan
    engine: str
    precision: StepPrecision
    batch: int
    seconds: float
    folder: Path

    @property
    def name(self) -> str:
        """Benchmark and precision."""
        return f"{self.plan.benchmark.name} {self.precision}"


def time_case(case: Case) -> StepReport:
    """Time the steps of a case in a separate process.

    Raises
    ------
    TooLargeError
        If the device lacks memory for the batch.
    LaunchError
        If the process fails in any other way.
    """
    case.folder.mkdir(parents=True, exist_ok=True)
    write_plan(case.plan, case.folder / PLAN)
    options = ["--engine", case.engine, "--batch", str(case.batch)]
    words = ["--folder", str(case.folder), *options, "--seconds", f"{case.seconds:g}"]
    # Keras reads it at import.
    asked = {"KERAS_BACKEND": "jax" if case.engine == "jax" else "tensorflow"}
    if case.engine != "jax":
        return _run([MODULE, *words], case.folder, StepReport, report_path(case.folder), asked)
    with tempfile.TemporaryDirectory(dir=case.folder) as dumped:
        asked["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DUMP.format(folder=Path(dumped).resolve())}"
        report = _run([MODULE, *words], case.folder, StepReport, report_path(case.folder), asked)
        for program in Path(dumped).glob("*_after_optimizations.txt"):
            program.replace(case.folder / PROGRAM)
    return report


def model_traffic(case: Case) -> WorkReport:
    """Count work and traffic of TensorFlow's single-sample step, as XLA compiles it for a processor.

    Raises
    ------
    LaunchError
        If counting fails.
    """
    output = case.folder / "work.json"
    words = ["--plan", str(case.folder / PLAN), "--samples", "1", "--output", str(output)]
    return _run(["hpcai.machine.work.step", *words], case.folder, WorkReport, output, {"KERAS_BACKEND": "tensorflow"})


def _run(words: list[str], folder: Path, kind: type[Report], path: Path, variables: dict[str, str]) -> Report:
    path.unlink(missing_ok=True)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **variables}
    log = folder / OUTPUT
    with log.open("a") as output:
        before = output.tell()
        try:
            done = subprocess.run(
                [sys.executable, "-m", *words],
                env=environment,
                stdout=output,
                stderr=output,
                check=False,
                timeout=LONGEST_S,
            )
        except subprocess.TimeoutExpired as error:
            raise LaunchError(TIME_UP(limit_s=LONGEST_S, log=log)) from error
    if done.returncode:
        told = log.read_bytes()[before:].decode(errors="replace")
        kind_of_error = TooLargeError if NO_MEMORY.search(told) else LaunchError
        raise kind_of_error(ENDED(ending=say_ending(done.returncode), words=last_words(told), log=log))
    return read_part(kind, path)
