"""Starts the rank program under Horovod's launcher as the supervisor does, and reads what it leaves behind."""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import RunPlan
from hpcai.data.pack import pack_dataset
from hpcai.data.prepare import prepare_dataset
from hpcai.data.registry import data_module
from hpcai.data.stage_folder import every_stage
from hpcai.profiles.instrument import Instrument
from hpcai.records.files import read_part
from hpcai.records.run import EpochRecord, RankReport, TrainingReport

BENCHMARKS = Path(__file__).resolve().parents[2] / "config" / "benchmarks"
LIMIT_S = 180
LAUNCHERS = {
    "horovod": ("hpcai.training.launch", "--gloo"),
    "tensorflow": ("hpcai.training.spawn",),
    "jax": ("hpcai.training.spawn",),
}
"""How the ranks of each engine are started."""
ENGINES = ["horovod", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))]
"""Parameters of what holds for every engine."""
RANK_PROGRAM = ("-m", "hpcai.training")
Meddle = Callable[[Path, subprocess.Popen], None]


@dataclass(frozen=True)
class Run:
    """What a launcher left behind."""

    raw: Path
    exit_status: int
    output: str
    wall_s: float

    @property
    def report(self) -> TrainingReport:
        return read_part(TrainingReport, self.raw / "training.json")

    def rank(self, number: int) -> RankReport:
        return read_part(RankReport, self.raw / "ranks" / f"rank{number}.json")

    @property
    def losses(self) -> list[float]:
        return [float(row["train_loss"]) for row in csv.DictReader((self.raw / "steps.csv").open())]

    @property
    def log(self) -> list[dict]:
        lines = (self.raw / "mllog.txt").read_text().splitlines()
        return [json.loads(line.removeprefix(":::MLLOG "), parse_constant=pytest.fail) for line in lines]

    @property
    def epochs(self) -> list[EpochRecord]:
        return [EpochRecord.model_validate_json(line) for line in (self.raw / "epochs.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Prepared:
    """A dataset, in place and packed, where runs may write, and whose Python they use."""

    manifest: Path
    pack: Path
    folder: Path
    python: str = sys.executable

    def run(
        self,
        name: str,
        plan: RunPlan,
        meddle: Meddle | None = None,
        program: Sequence[str] = RANK_PROGRAM,
        instrument: Instrument | None = None,
    ) -> Run:
        raw = self.folder / name
        raw.mkdir()
        write_plan(plan, raw / "plan.json")
        program = [self.python, *program, "--plan", str(raw / "plan.json"), "--raw", str(raw)]
        if instrument is not None:
            instrument.before(raw, [self.pack.parent, every_stage(self.scratch(name))])
            program = instrument.wrap(program, raw)
        data = ["--manifest", str(self.manifest), "--scratch", str(self.scratch(name)), "--page-cache", "kept"]
        if plan.benchmark.staging.place == "node_local":
            data += ["--pack", str(self.pack)]
        launcher = [self.python, "-m", *LAUNCHERS[plan.point.engine], "-np", str(plan.point.ranks)]
        started = time.monotonic()
        with (raw / "output.log").open("w") as output:
            process = subprocess.Popen(
                [*launcher, *program, *data], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                if meddle:
                    meddle(raw, process)
                status = process.wait(timeout=LIMIT_S)
            finally:
                if process.poll() is None:
                    for child in psutil.Process(process.pid).children(recursive=True):
                        child.kill()
                    process.kill()
        return Run(raw, status, (raw / "output.log").read_text(), time.monotonic() - started)

    def scratch(self, name: str) -> Path:
        return self.folder / f"scratch_{name}"

    def staged(self, name: str) -> list[Path]:
        """What is left of the staging folders of a run."""
        return list(self.folder.glob(every_stage(self.scratch(name)).name))


def benchmark_file(name: str) -> dict[str, Any]:
    """Return the settings of a benchmark file of the project."""
    return yaml.safe_load((BENCHMARKS / f"{name}.yaml").read_text())


def prepared(plan: RunPlan, folder: Path) -> Prepared:
    """Generate and pack the dataset of a plan."""
    benchmark = plan.benchmark
    module, data = data_module(benchmark.workload, benchmark.data), folder / "data"
    manifest = prepare_dataset(benchmark.workload, module, data, folder / "datasets.tsv")
    pack_dataset(manifest, module, data, benchmark.pack, data / "packed")
    return Prepared(data / "manifest.json", data / "packed" / "packed.json", folder)


def check_log(log: Path, rule_set: str) -> subprocess.CompletedProcess:
    """Return what MLPerf's own checker says about a log."""
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", rule_set]
    command = [*checker, "--log_output", str(log.with_suffix(f".{rule_set}")), str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
