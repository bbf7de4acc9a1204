"""Files that accompany the code of a benchmark: README, implementation settings, and scripts to repeat the runs."""

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined

from hpcai.config.base import Settings
from hpcai.config.machine import Machine
from hpcai.config.runs import Point, RunPlan
from hpcai.launchers.registry import default_launcher, launcher_of
from hpcai.mlperf_hpc.benchmarks import WORKLOAD_OF
from hpcai.mlperf_hpc.submission.model import IMPLEMENTATION, Result, Submission, SubmittedSystem
from hpcai.mlperf_hpc.submission.precision import say_precision
from hpcai.mlperf_hpc.submission.system_file import frameworks_of
from hpcai.records.commands import shown_command
from hpcai.records.run import RunRecord
from hpcai.workloads.registry import read_beside, title_of

DATA, SCRATCH = "${DATASET_PATH}", "${SCRATCH_PATH}"
"""Placeholders for the folder of an existing dataset and for node-local scratch."""
RUNS, WEAK_RUNS = "submitted", "submitted_weak"
"""Names of the run tables."""
_FOLDERS = re.compile(r"(?<![\w.}])/(?:[\w.+@%,-]+/)+")
STEERING = (
    "DNNL_DEFAULT_FPMATH_MODE", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "MKL_NUM_THREADS", "NCCL_ALGO", "NCCL_PROTO", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "XLA_FLAGS",
)  # fmt: skip
"""The only environment variables that are published: settings of numerics, threads and communication, by name."""


def implementation_files(submission: Submission, system: SubmittedSystem, result: Result) -> dict[str, str]:
    """Return the files of ``implementations/SYSTEM`` for one result, by path; scripts end in ``.sh``."""
    values = _values(submission, system, result)
    plans = {f"plans/{run.number}.json": run.record for run in (*result.runs, *result.pruned)}
    return {
        "README.md": _render("system_readme.md", values),
        f"{system.name}_{IMPLEMENTATION}.json": _json(_data_types(result.record)),
        "setup.sh": _render("setup.sh", values),
        "init_datasets.sh": _render("init_datasets.sh", values),
        "run_and_time.sh": _render("run_and_time.sh", values),
        **{name: _json(portable_plan(record.plan).model_dump(mode="json")) for name, record in plans.items()},
        **_study_files(submission, result),
    }


def benchmark_readme(submission: Submission, result: Result, code: str) -> str:
    """Return the README of the implementation itself: problem, data, model, optimizer, quality, directions.

    Parameters
    ----------
    submission, result
        The submission, and the first of its results of the benchmark, which share this README.
    code
        Origin of the code, as a sentence.
    """
    plan = result.record.plan
    all_of_it = [one for system in submission.systems for one in system.results if one.benchmark == result.benchmark]
    points = [one.record.plan.point for one in all_of_it]
    staging = plan.benchmark.staging
    values: dict[str, Any] = {
        "title": title_of(WORKLOAD_OF[result.benchmark]),
        "frameworks": ", ".join(frameworks_of(point.engine for point in points)),
        "benchmark": plan.benchmark,
        "official": plan.benchmark.data.source != "generate",
        "on_clock": plan.time_staging,
        "is_split": staging.place == "node_local" and staging.partition == "split",
        "several_nodes": any(point.nodes > 1 for point in points),
        "rule_set": submission.rule_set,
        "code": code,
    }
    aspects = _templates().from_string(read_beside(WORKLOAD_OF[result.benchmark], "submission.md"))
    return _render("benchmark_readme.md", values | {"aspects": aspects.render(values)})


def _values(submission: Submission, system: SubmittedSystem, result: Result) -> dict[str, Any]:
    """Return the template variables of one result; texts for shells are quoted."""
    record, plan = result.record, result.record.plan
    kind = "runs" if result.scaling == "strong" else "weak"
    dataset = shlex.quote(f"data/{plan.benchmark.data.dataset}")
    return {
        "title": title_of(WORKLOAD_OF[result.benchmark]),
        "system": system,
        "submission": submission,
        "result": result,
        "plan": plan,
        "precision": say_precision(plan),
        "implementation": IMPLEMENTATION,
        "launcher": shlex.quote(launcher_of(record) or default_launcher()),
        "launcher_known": bool(launcher_of(record)),
        "dataset": dataset,
        "packed": plan.benchmark.is_packed,
        "on_cuda": _needs_cuda(plan.machine),
        "folder": shlex.quote(f"results/{kind}/{record.run_id.rpartition('/')[0]}"),
        "command": portable_command(record),
        "environment": published_environment(record),
        "settings": _flat(plan.benchmark.recipe.model_dump(mode="json")),
    }


def _needs_cuda(machine: Machine) -> bool:
    """Return whether the environment needs the libraries of GPUs; with an image, the ranks have those of the image."""
    return machine.device.kind == "gpu" and not (machine.software and machine.software.container)


def published_environment(record: RunRecord) -> dict[str, str]:
    """Return the variables of a run's environment that may be published.

    Only those of ``STEERING`` qualify, and only if their value names no folder: others could disclose users, hosts,
    folders or credentials.
    """
    known = record.provenance.environment
    return {name: known[name] for name in STEERING if name in known and "/" not in known[name]}


def portable_command(record: RunRecord) -> str:
    """Return the start command of a run without folders and hosts of this machine."""
    hosts = {rank.placement.hostname for rank in record.ranks}
    hosts |= {str(record.provenance.machine_facts.get("hostname") or "")}
    named = "|".join(re.escape(host) for host in sorted(hosts - {""})) or r"(?!)"
    command = re.sub(rf"(?<![\w.-])(?:{named})(?![\w-])", "HOST", shown_command(record))
    return _FOLDERS.sub("FOLDER/", command)


def portable_plan(plan: RunPlan) -> RunPlan:
    """Return a plan without folders of this machine; variables that the user sets replace them."""
    machine, data = plan.machine, plan.benchmark.data
    local = machine.storage.node_local
    storage = machine.storage.model_copy(update={"node_local": local if local.startswith("${") else SCRATCH})
    profilers = machine.profilers.model_copy(update={"darshan_library": None})
    own_data = data.model_copy(update={"path": DATA if data.path else None})
    return plan.model_copy(
        update={
            "machine": machine.model_copy(update={"storage": storage, "profilers": profilers}),
            "benchmark": plan.benchmark.model_copy(update={"data": own_data}),
        }
    )


def _data_types(record: RunRecord) -> dict[str, str]:
    precision = record.plan.point.precision
    return {
        "Starting weights filename?": "none: drawn at random from the run's seed",
        "Weight transformations?": "No",
        "Weight data type(s)": "fp32",
        "Input data type(s)": "fp32" if precision == "tf32" else precision,  # TF32 rounds only inside products
        "Retraining": "No",
        "Notes": say_precision(record.plan),
    }


def _study_files(submission: Submission, result: Result) -> dict[str, str]:
    """Return a study that prepares the same data and names the same runs, in the workflow's format."""
    plan = portable_plan(result.record.plan)
    tables = _run_tables(plan.point, result)
    study = {
        "name": plan.study,
        "title": f"{title_of(WORKLOAD_OF[result.benchmark])} as submitted by {submission.org}"[:500],
        "machine": plan.machine.name,
        "benchmarks": [plan.benchmark.name],
        "runs": RUNS,
        **({"weak_runs": WEAK_RUNS} if WEAK_RUNS in tables else {}),
        "rule_set": plan.rule_set,
        "time_staging": plan.time_staging,
        "seeds": plan.seeds,
        "limits": plan.limits.model_dump(mode="json"),
        "submission": plan.submission.model_dump(mode="json"),
    }
    return {
        "config/study.yaml": _yaml(study),
        f"config/benchmarks/{plan.benchmark.name}.yaml": _yaml(plan.benchmark),
        f"config/machines/{plan.machine.name}.yaml": _yaml(plan.machine),
        **{f"config/runs/{name}.tsv": table for name, table in tables.items()},
    }


def _run_tables(point: Point, result: Result) -> dict[str, str]:
    """Return the run tables that name the runs of a result, by name.

    The runs of a time to train may be any of those measured: the table goes up to the last of them. A group needs a
    table of its own; the other one, which every study has, then names one run of the point by itself.
    """
    if result.scaling == "weak":
        alone = f"# The submitted trainings are the group in {WEAK_RUNS}.tsv; this is one of them by itself.\n"
        return {
            RUNS: alone + _run_table(point, {"repeats": 1}),
            WEAK_RUNS: _run_table(point, {"instances": result.measured}),
        }
    last = max(run.record.plan.repetition for run in (*result.runs, *result.pruned))
    return {RUNS: _run_table(point, {"repeats": last})}


def _run_table(point: Point, count: Mapping[str, int]) -> str:
    units = {"fusion_bytes": "byte", "cycle_time_s": "s"}
    cells = {
        name: f"{value!r} {units[name]}" if name in units and value is not None else value
        for name, value in (point.model_dump(mode="json") | dict(count)).items()
    }
    rows = (cells, ["" if value is None else str(value) for value in cells.values()])
    return "".join("\t".join(row) + "\n" for row in rows)


def _yaml(settings: Settings | Mapping[str, Any]) -> str:
    values = settings.model_dump(mode="json") if isinstance(settings, Settings) else dict(settings)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


@cache
def _templates() -> Environment:
    folder = files("hpcai.mlperf_hpc.submission") / "templates"
    loader = FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8"))
    # Markdown and shell, no HTML: nothing is escaped; text for shells is quoted where it is created.
    return Environment(
        loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True,  # noqa: S701
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _templates().get_template(template).render(values)
