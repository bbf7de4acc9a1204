"""Read and check a study with all its files before anything else happens; report all errors at once."""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hpcai.config.acceptance import check_acceptance
from hpcai.config.execution import check_execution
from hpcai.config.machine import Machine
from hpcai.config.plans import Campaign
from hpcai.config.published import Published
from hpcai.config.reading import Model, Problems, Words, read_yaml, shorten, validate
from hpcai.config.rounds import check_rounds
from hpcai.config.run_table import read_rows
from hpcai.config.runs import Point, RunRow, WeakRow
from hpcai.config.sharing import Sharing
from hpcai.config.study import Study, configuration_folder, named_folder
from hpcai.config.workloads import BENCHMARKS, Benchmark
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at

NO_STUDY = Message(
    "load.no_study", "no such file; name a study such as config/study.yaml, or write one with `hpcai init FOLDER`"
)
NO_FP16 = Message("load.no_fp16", "fp32 or bf16: TensorFlow has no fp16 kernels for processors")
NO_TF32 = Message("load.no_tf32", "fp32 or bf16: processors have no TF32")
NO_FP16_BY_JAX = Message("load.no_fp16_by_jax", "fp32, tf32 or bf16: the engine jax has no loss scaling")
NOT_BY_JAX = Message("load.not_by_jax", "1: the engine jax leaves messages to XLA")
OTHER_ENGINE = Message("load.other_engine", "one of {engines}: the model of {benchmark!r} runs on no other")
BATCH_TOO_LARGE = Message("load.batch_too_large", "at most the {samples} training samples of {benchmark!r}")
OTHER_DATA = Message(
    "load.other_data", "a different dataset name, because its data or pack differ from those of {other!r}"
)
POINT_TWICE = Message(
    "load.point_twice", "each benchmark, variant and scale once (line {line} has it; raise its {raised})"
)
PARTS_OF_RANKS = Message("load.parts_of_ranks", "a divisor of the {ranks} ranks, which share samples")
PARTS_OF_NODE = Message(
    "load.parts_of_node", "a divisor of the {ranks} ranks of a node, because staging.partition is 'split'"
)
NO_GROUPS_BESIDE_PARTS = Message("load.no_groups_beside_parts", "1, because {parts} ranks share each sample")
TOO_MANY_INSTANCES = Message(
    "load.too_many_instances",
    "at most {most}: this many of {nodes} x {ranks_per_node} ranks have separate cores at the same time on the "
    "nodes of {machine!r} ({machine_nodes} x ranks_per_node {machine_ranks_per_node})",
)
UNKNOWN_FIGURE = Message("load.unknown_figure", "figures of a study: {known}")
UNKNOWN_VARIANT = Message("load.unknown_variant", "variants of the run table: {known}")
UNKNOWN_WORKLOAD = Message("load.unknown_workload", "one of {known}")

STUDY_TABLES = {"compare_with": "runs.parquet", "rank_with": "scores.parquet"}
"""Keys of the study that name other results folders, and the required table in each."""


FP64_BYTES = 8
Row = TypeVar("Row", RunRow, WeakRow)


def load_campaign(study: Mapping[str, object], config_dir: Path, study_file: str = "study") -> Campaign:
    """Check a study and the files it names.

    Parameters
    ----------
    study
        Content of the study file.
    config_dir
        Folder with machines/, benchmarks/, runs/ and published/; the study's `config_dir` takes precedence.
    study_file
        Name of the study file in messages.

    Raises
    ------
    ConfigError
        Lists every error of every file: file, dotted key, what was found, what is allowed.
    """
    problems = Problems()
    checked = validate(Study, study, study_file, problems)
    if checked is None:
        problems.raise_if_any()
        raise AssertionError("a study without errors")
    folder = named_folder(checked.config_dir) or config_dir
    machine = _read_model(Machine, folder / "machines" / f"{checked.machine}.yaml", problems)
    benchmarks = {
        name: _read_benchmark(folder / "benchmarks" / f"{name}.yaml", problems) for name in checked.benchmarks
    }
    rows = _read_table(checked, folder / "runs" / f"{checked.runs}.tsv", RunRow, problems)
    weak_file = folder / "runs" / f"{checked.weak_runs}.tsv"
    weak_rows = _read_table(checked, weak_file, WeakRow, problems) if checked.weak_runs else []
    published = tuple(folder / "published" / f"{name}.yaml" for name in checked.published)
    for path in published:
        _read_model(Published, path, problems)
    problems.raise_if_any()
    present = {name: benchmark for name, benchmark in benchmarks.items() if benchmark}
    if machine is None:
        raise AssertionError("a machine file without errors")
    plain, groups = tuple(row for _, row in rows), tuple(row for _, row in weak_rows)
    campaign = Campaign(checked, machine, present, plain, published, groups)
    _check_datasets(present, problems)
    _check_folders(checked, study_file, problems)
    _check_figures(checked, study_file, problems)
    _check_profile_variants(campaign, study_file, problems)
    check_rounds(checked.rounds, study_file, problems)
    for key, found, allowed in check_acceptance(checked.acceptance, machine, present):
        problems.add(study_file, f"acceptance.{key}", found, allowed)
    _check_hpl_tests(checked, machine, study_file, problems)
    _check_rows(campaign, f"{checked.runs}.tsv", rows, problems)
    _check_rows(campaign, f"{checked.weak_runs}.tsv", weak_rows, problems)
    if not problems.lines and checked.seeds == "derived":
        _check_seeds(campaign, problems)
    problems.raise_if_any()
    return campaign


def load_study_file(path: Path) -> Campaign:
    """Read a study file and check it with all files that it names, located next to it.

    Raises
    ------
    ConfigError
        Lists every error of every file.
    """
    return load_campaign(read_settings(path), configuration_folder(path), str(path))


def read_settings(path: str | Path) -> dict[str, object]:
    """Read the keys of a study file, unchecked.

    Raises
    ------
    ConfigError
        If there is no such file, or it has no keys, or a duplicate one.
    """
    problems = Problems()
    if not Path(path).exists():
        raise ConfigError(at(str(path), NO_STUDY()))
    data = read_yaml(Path(path), problems)
    problems.raise_if_any()
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: found {shorten(data)}; allowed: the keys of a study, see config/study.yaml")
    return data


def refuse_loose_files(paths: Iterable[str | Path]) -> None:
    """Refuse settings files that `hpcai check` rejects although Snakemake's reader accepted them.

    Snakemake uses the last of two equal keys, and follows merge keys.

    Parameters
    ----------
    paths
        All files read by Snakemake.

    Raises
    ------
    ConfigError
        Lists the errors of all files.
    """
    problems = Problems()
    for path in paths:
        read_yaml(Path(path), problems)
    problems.raise_if_any()


def _read_benchmark(path: Path, problems: Problems) -> Any:  # noqa: ANN401  one of the union `Benchmark`
    before = len(problems.lines)
    data = read_yaml(path, problems)
    if len(problems.lines) > before:
        return None
    workload = data.get("workload") if isinstance(data, dict) else None
    if not isinstance(workload, str) or workload not in BENCHMARKS:
        problems.add(str(path), "workload", workload or Words("nothing"), UNKNOWN_WORKLOAD(known=", ".join(BENCHMARKS)))
        return None
    return _checked_model(BENCHMARKS[workload], data, path, problems)


def _read_model(model: type[Model], path: Path, problems: Problems) -> Model | None:
    before = len(problems.lines)
    data = read_yaml(path, problems)
    if len(problems.lines) > before:
        return None
    return _checked_model(model, data, path, problems)


def _checked_model(model: type[Model], data: object, path: Path, problems: Problems) -> Model | None:
    checked = validate(model, data, str(path), problems)
    name = getattr(checked, "name", path.stem)
    if checked is not None and name != path.stem:
        problems.add(str(path), "name", name, f"the file's own name, {path.stem!r}")
    return checked


def _read_table(study: Study, path: Path, row: type[Row], problems: Problems) -> list[tuple[int, Row]]:
    """Read a run table; rows without an engine get the study's."""
    usual = {"engine": study.engine} if study.engine else {}
    read = read_rows(path, row, problems)
    return [(n, one if "engine" in one.model_fields_set else one.model_copy(update=usual)) for n, one in read]


def _check_datasets(benchmarks: Mapping[str, Benchmark], problems: Problems) -> None:
    """Benchmarks with the same dataset name must use the same data and packing."""
    first: dict[str, Benchmark] = {}
    for name, benchmark in benchmarks.items():
        other = first.setdefault(benchmark.data.dataset, benchmark)
        if (other.data, other.pack) != (benchmark.data, benchmark.pack):
            allowed = OTHER_DATA(other=other.name)
            problems.add(f"{name}.yaml", "data.dataset", benchmark.data.dataset, allowed)


def _check_folders(study: Study, file: str, problems: Problems) -> None:
    """Results folders of other studies must exist and differ; relative paths start at the working directory."""
    for key in ("compare_with", "rank_with"):
        for number, name in enumerate(getattr(study, key)):
            folder = Path(os.path.expandvars(name))
            table = folder / "tables" / STUDY_TABLES[key]
            if folder.resolve() == Path("results").resolve():
                problems.add(file, f"{key}.{number}", name, "the results folder of a different study")
            elif not table.is_file():
                allowed = f"the results folder of a finished study: {table} must be there"
                problems.add(file, f"{key}.{number}", name, allowed)


def _check_figures(study: Study, file: str, problems: Problems) -> None:
    """Figures to show first must be those of a study."""
    if not study.show_first:
        return
    from hpcai.catalogue.figures import CHARTS, FIGURES

    stages = ("analyse", "views", "scores", "predict")
    known = [name for name, one in {**FIGURES, **CHARTS}.items() if one.stage in stages]
    for number, name in enumerate(study.show_first):
        if name not in known:
            problems.add(file, f"show_first.{number}", name, UNKNOWN_FIGURE(known=", ".join(sorted(known))))


def _check_profile_variants(campaign: Campaign, file: str, problems: Problems) -> None:
    """Variants to profile must be in the run table, else nothing would be profiled in silence."""
    known = {row.variant for row in campaign.rows}
    for number, name in enumerate(campaign.study.profile_variants):
        if known and name not in known:
            allowed = UNKNOWN_VARIANT(known=", ".join(sorted(known)))
            problems.add(file, f"profile_variants.{number}", name, allowed)


def _check_hpl_tests(study: Study, machine: Machine, file: str, problems: Problems) -> None:
    for number, test in enumerate(study.predict.hpl_tests):
        place, processes = f"predict.hpl_tests.{number}", test.processes
        if processes > machine.cores_per_node:
            allowed = f"at most {machine.cores_per_node} processes, the cores_per_node of {machine.name!r}"
            problems.add(file, place, processes, allowed)
        if FP64_BYTES * test.order**2 > machine.memory_bytes:
            most = math.isqrt(int(machine.memory_bytes) // FP64_BYTES)
            allowed = f"at most {most}: the matrix must fit the memory_bytes of {machine.name!r}"
            problems.add(file, f"{place}.order", test.order, allowed)


def _check_rows(
    campaign: Campaign, file: str, rows: Iterable[tuple[int, RunRow | WeakRow]], problems: Problems
) -> None:
    seen: dict[tuple[str, str, str], int] = {}
    for number, row in rows:
        place = f"{file}: line {number}"
        key = (row.benchmark, row.variant, row.scale)
        if key in seen:
            raised = "repeats" if isinstance(row, RunRow) else "instances"
            allowed = POINT_TWICE(line=seen[key], raised=raised)
            problems.add(place, "variant", "/".join(key), allowed)
        seen[key] = number
        _check_row(campaign, row, place, problems)
        if isinstance(row, WeakRow):
            _check_group(campaign, row, place, problems)


def _check_group(campaign: Campaign, row: WeakRow, place: str, problems: Problems) -> None:
    """Check that the instances of a group get separate nodes, cores and accelerators."""
    machine, benchmark = campaign.machine, campaign.benchmarks.get(row.benchmark)
    if benchmark is not None and benchmark.suite != "mlperf_hpc":
        allowed = "a benchmark of MLPerf HPC: only its rules define concurrent instances"
        problems.add(place, "benchmark", row.benchmark, allowed)
    if row.nodes > machine.nodes or row.ranks_per_node > machine.ranks_per_node:
        return  # already reported
    most = Sharing.of(machine, row.nodes, row.ranks_per_node, row.instances).most_instances(machine.nodes)
    if row.instances > most:
        allowed = TOO_MANY_INSTANCES(
            most=most,
            nodes=row.nodes,
            ranks_per_node=row.ranks_per_node,
            machine=machine.name,
            machine_nodes=machine.nodes,
            machine_ranks_per_node=machine.ranks_per_node,
        )
        problems.add(place, "instances", row.instances, allowed)


def _check_row(campaign: Campaign, row: Point, place: str, problems: Problems) -> None:
    machine = campaign.machine
    if row.nodes > machine.nodes:
        problems.add(place, "nodes", row.nodes, f"at most {machine.nodes}, the nodes of {machine.name!r}")
    if row.ranks_per_node > machine.ranks_per_node:
        allowed = f"at most {machine.ranks_per_node}, the ranks_per_node of {machine.name!r}"
        problems.add(place, "ranks_per_node", row.ranks_per_node, allowed)
    _check_precision(row, machine, place, problems)
    if row.engine == "jax":
        _check_jax(row, machine, place, problems)
    benchmark = campaign.benchmarks.get(row.benchmark)
    if benchmark is None:
        problems.add(place, "benchmark", row.benchmark, f"one of the study: {', '.join(campaign.benchmarks)}")
        return
    if row.engine not in benchmark.engines:
        allowed = OTHER_ENGINE(engines=", ".join(benchmark.engines), benchmark=benchmark.name)
        problems.add(place, "engine", row.engine, allowed)
    if row.spatial_parts > 1:
        _check_parts(benchmark, row, place, problems)
    if row.ranks % row.spatial_parts == 0:
        _check_batch(benchmark, row, place, problems)
        for name, found, allowed in check_execution(benchmark, machine, row):
            problems.add(place, name, found, allowed)


def _check_precision(row: Point, machine: Machine, place: str, problems: Problems) -> None:
    if row.precision == "fp16" and machine.device.kind == "cpu":
        problems.add(place, "precision", row.precision, NO_FP16())
    if row.precision == "tf32" and machine.device.kind == "cpu":
        problems.add(place, "precision", row.precision, NO_TF32())


def _check_jax(row: Point, machine: Machine, place: str, problems: Problems) -> None:
    """Check that a point does not need features of TensorFlow's training step."""
    if row.precision == "fp16" and machine.device.kind != "cpu":
        problems.add(place, "precision", row.precision, NO_FP16_BY_JAX())
    if row.gradient_groups > 1:
        problems.add(place, "gradient_groups", row.gradient_groups, NOT_BY_JAX())


def _check_parts(benchmark: Benchmark, row: Point, place: str, problems: Problems) -> None:
    """Check that the ranks form whole replicas, and that the benchmark can split its samples into this many parts."""
    parts = row.spatial_parts
    if row.ranks % parts:
        problems.add(place, "spatial_parts", parts, PARTS_OF_RANKS(ranks=row.ranks))
    elif benchmark.staging.partition == "split" and row.ranks_per_node % parts:
        problems.add(place, "spatial_parts", parts, PARTS_OF_NODE(ranks=row.ranks_per_node))
    if refusal := benchmark.refuse_parts(parts):
        problems.add(place, "spatial_parts", parts, refusal)
    elif row.batchnorm_group > 1:
        problems.add(place, "batchnorm_group", row.batchnorm_group, NO_GROUPS_BESIDE_PARTS(parts=parts))


def _check_batch(benchmark: Benchmark, row: Point, place: str, problems: Problems) -> None:
    """Check that a global batch divides evenly among ranks and micro-batches, and that an epoch has at least one."""
    batch, samples = row.global_batch or benchmark.recipe.global_batch, benchmark.data.train_samples
    if batch % (row.replicas * row.accumulation):
        parts = f"{row.ranks} ranks" if row.spatial_parts == 1 else f"{row.replicas} replicas"
        parts += f" x {row.accumulation} micro-batches" if row.accumulation > 1 else ""
        problems.add(place, "global_batch", batch, f"a multiple of the {parts}")
    if row.gradient_groups > 1 and row.fusion_bytes is not None:
        problems.add(place, "gradient_groups", row.gradient_groups, "1, because fusion_bytes sends single gradients")
    if row.engine != "horovod":
        for name in ("fusion_bytes", "cycle_time_s"):
            if getattr(row, name) is not None:
                problems.add(place, name, getattr(row, name), f"blank: it is Horovod's, and the engine is {row.engine}")
    if row.ranks % row.batchnorm_group:
        problems.add(place, "batchnorm_group", row.batchnorm_group, f"a divisor of the {row.ranks} ranks")
    if benchmark.remainder == "refuse" and samples % batch:
        allowed = f"a divisor of the {samples} training samples of {benchmark.name!r}"
        problems.add(place, "global_batch", batch, allowed)
    if benchmark.remainder == "drop" and batch > samples:
        problems.add(place, "global_batch", batch, BATCH_TOO_LARGE(samples=samples, benchmark=benchmark.name))


def _check_seeds(campaign: Campaign, problems: Problems) -> None:
    seeds: dict[tuple[str, int | None], str] = {}
    kinds = [
        *((run_id, "timed") for run_id in campaign.plans()),
        *((run_id, "weak") for run_id in campaign.weak_plans()),
    ]
    for run_id, kind in kinds:
        other = seeds.setdefault((run_id.rsplit("/", 1)[0], campaign.seed(run_id, kind)), run_id)
        if other != run_id:
            problems.add(
                "study", "seed", campaign.study.seed, f"another seed, because {run_id} and {other} would share one"
            )
