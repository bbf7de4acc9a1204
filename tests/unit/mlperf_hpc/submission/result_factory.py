"""Made-up results folders with records and MLPerf logs that belong together, and a git checkout of their code."""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unit.mlperf_hpc.log_factory import START_MS, log_text
from unit.record_factory import make_official_plan, make_provenance, make_record

from hpcai.config.benchmark import Target
from hpcai.config.study import Submission
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.parsers.mllog import parse_mllog
from hpcai.records.files import write_json
from hpcai.records.run import Artefact, EpochRecord, RunRecord, TrainingReport
from hpcai.records.weak import GROUP, Extent, Instance, NodeShare, WeakGroup
from hpcai.rules.verdict import Verdict

FILES = {"cosmoflow": "cosmoflow", "deepcam": "deepcam", "oc20": "opencatalyst"}
EPOCHS = {"cosmoflow": 24, "deepcam": 14, "oc20": 26}
"""At least as many as the reference needs at the batches of the log factory."""
RUNS = {"cosmoflow": 10, "deepcam": 5, "oc20": 5}
ORG = "Example_Institute"
VALID = (Verdict(suite="mlperf_hpc", level="closed", valid=True),)

INSTANCES = 6
PRUNED = 4


def make_own_record(
    benchmark: str, number: int, *, name: str | None = None, record: Mapping[str, Any] | None = None, **plan: Any
) -> RunRecord:
    """Return the record of a converged run of an official benchmark file, with a target that it reaches."""
    changes = {"target": Target(value=0.3), "name": name or FILES[benchmark]}
    settings = make_official_plan(FILES[benchmark]).benchmark.model_copy(update=changes)
    submission = Submission(org=ORG, platform="testbox", division="closed", status="onprem")
    fields = {"data_source": "existing", "verdicts": VALID, **(record or {})}
    arguments = {"benchmark": settings, "submission": submission, "seeds": "entropy", **plan}
    return make_record(record=fields, repetition=number, **arguments)


def timed_like(record: RunRecord, log: str) -> RunRecord:
    """Return a record with the times of a log, as for a real run. The record of a broken run stays unchanged."""
    logged, training = read_run(parse_mllog(log.encode(), "log"), "log", 1), record.training
    if training is None or logged.run is None:
        return record
    staging_s = logged.staging.duration_s if logged.staging else 0.0
    changes = {
        "init_s": logged.init_s,
        "run_s": logged.run.duration_s,
        "staging": training.staging.model_copy(update={"staging_s": staging_s}),
        "epochs": _epochs_like(training, [one.duration_s for one in logged.epochs], logged.evaluations[0].duration_s),
    }
    around_s = training.import_s + logged.init_s + (record.launch_s or 0.0) + 3.0
    update = {"training": training.model_copy(update=changes), "wall_s": logged.run.duration_s + around_s}
    return record.model_copy(update=update)


def _epochs_like(training: TrainingReport, times_s: Sequence[float], evaluation_s: float) -> tuple[EpochRecord, ...]:
    """Return one epoch per time; the last one is the last of the training."""
    own = training.epochs
    chosen = [own[min(place, len(own) - 1)] for place in range(len(times_s) - 1)] + [own[-1]]
    return tuple(
        epoch.model_copy(update={"epoch": number, "train_s": time_s - evaluation_s, "evaluation_s": evaluation_s})
        for number, (epoch, time_s) in enumerate(zip(chosen, times_s, strict=True), start=1)
    )


def write_run(folder: Path, record: RunRecord, log: str, *, measured: str = "") -> Path:
    """Write a run as the workflow leaves it; its record has the times of its log, or of another one."""
    record = timed_like(record, measured or log)
    (folder / "raw").mkdir(parents=True)
    (folder / "raw/mllog.txt").write_text(log)
    digest = hashlib.sha256(log.encode()).hexdigest()
    artefact = Artefact(path="mllog.txt", bytes=len(log.encode()), sha256=digest)
    write_json(record.model_copy(update={"artefacts": (artefact,)}), folder / "record.json")
    return folder


def write_runs(
    results: Path,
    benchmark: str,
    *,
    numbers: Sequence[int] | None = None,
    epochs: Mapping[int, int] | None = None,
    log: Mapping[str, Any] | None = None,
    **record: Any,
) -> None:
    """Write runs of one benchmark at one scale; ``epochs`` by number, others as ``EPOCHS``."""
    for number in numbers or range(1, RUNS[benchmark] + 1):
        made = make_own_record(benchmark, number, **record)
        count = (epochs or {}).get(number, EPOCHS[benchmark])
        own = {"org": ORG, "platform": "testbox", "seed": 1000 + number, "epochs": count, **(log or {})}
        text = log_text(benchmark, start_ms=START_MS + 10_000_000 * number, **own)
        write_run(results / "runs" / made.run_id, made, text)


def write_group(results, benchmark="oc20", *, log=None, **plan):
    """A group of six, of which the fourth has not converged; all on one node."""
    folder = results / "weak/opencatalyst/fp32/n1x1"
    instances = []
    for number in range(1, INSTANCES + 1):
        record = make_own_record(benchmark, number, kind="weak", instances=INSTANCES, **plan)
        missed = number == PRUNED
        ending = {"scores": [0.5] * 26, "status": "aborted"} if missed else {}
        text = log_text(benchmark, org=ORG, seed=number, epochs=26, **ending, **(log or {}))
        write_run(folder / f"i{number}", record, text)
        run_s = timed_like(record, text).training.run_s
        instances.append(
            Instance(
                number=number, run_id=record.run_id, attempt=record.attempt, seed=number, outcome=record.outcome,
                reason="", pruned="not_converged" if missed else None, pruned_reason="it missed" if missed else "",
                shares=(NodeShare(host="node0", cores=(number,)),), run_start_monotonic_s=0, run_stop_monotonic_s=run_s,
            )
        )  # fmt: skip
    extent = Extent(nodes=1, ranks=1, accelerators=0)
    group = WeakGroup(
        group="opencatalyst/fp32/n1x1", benchmark="opencatalyst", variant="fp32", scale="n1x1", attempt="a",
        started_utc="2026-01-01T00:00:00Z", instances=INSTANCES, counted=INSTANCES - 1, instance_extent=extent,
        whole_extent=extent, time_to_train_all_monotonic_s=run_s, results=tuple(instances),
    )  # fmt: skip
    write_json(group, folder / GROUP)
    return folder


def make_checkout(folder: Path) -> str:
    """Make a git checkout with some code of ours; return its commit."""
    files = {"src/hpcai/__init__.py": '"""Code."""\n', "Makefile": "env:\n", "tests/test_x.py": "", "notes.txt": ""}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", *files], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "code", "--date", "2026-01-01T00:00:00Z"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def origin_of(commit: str, **changes: Any) -> dict[str, Any]:
    """Return what a record says of a run from a commit, as the field ``record`` of a factory."""
    command = (
        *("/opt/env/bin/python", "-m", "hpcai.training.launch", "-np", "1", "--gloo", "/opt/env/bin/python", "-m"),
        *("hpcai.training", "--plan", "results/runs/a/plan.json", "--scratch", "/local/x/a1"),
        *("--manifest", "/data/project/cosmoflow/manifest.json"),
    )
    return {"provenance": make_provenance(**{"commit": commit, "command": command, **changes})}


def read_checks(output: Path) -> dict[str, Any]:
    """Return what the checks found."""
    checks: dict[str, Any] = json.loads((output / "checks.json").read_text())
    return checks
