"""Estimates the cost of a campaign: jobs, node-hours, wall time, storage and files, each number with its method."""

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.estimate_data import Amount, DatasetEstimate, Method, estimate_dataset, unknown
from hpcai.campaign.estimate_jobs import Jobs, other_jobs, read_experience, schedule_s, training_jobs
from hpcai.config.plans import Campaign
from hpcai.config.sharing import Sharing
from hpcai.config.workloads import Benchmark
from hpcai.core.messages import Message
from hpcai.core.text import say_bytes
from hpcai.data.catalogue import read_catalogue

TOO_WIDE = Message(
    "estimate.too_wide",
    "width: {fit} of the largest jobs fit on the machine at a time, not {width} ({largest} of {nodes} nodes)",
)
TOO_LARGE = Message("estimate.too_large", "storage: the known requirements are {needed}, {free} are free")

HOUR_S = 3600.0
_MEDIANS = "medians of equal runs, measured"
_LIMITS = "limits.run_s, 1 + limits.disturbance.repeats times"
RUN_FILES = (
    "plan.json", "record.json",
    *(f"raw/{name}" for name in (
        "allocation.json", "clocks.json", "epochs.jsonl", "mllog.txt", "nodes.json", "output.log", "plan.json",
        "plan.sha256",
        "ranks.json", "record.json", "resources.parquet", "steps.csv", "supervisor.json", "training.json",
    )),
)  # fmt: skip
"""All files of a finished run, for any number of ranks."""
PROFILE_FILES = ("capture.json", "raw/instrument.json")
"""Additional files of a profiled run; its tool writes at least one more."""
INSTANCE_FILES = ("raw/instance.json",)
"""Additional files of a weak-scaling instance."""


@dataclass(frozen=True)
class Places:
    """Locations of a campaign's files.

    Attributes
    ----------
    data, results
        Folders on the shared file system; they need not exist yet.
    datasets_tsv
        Table of the archives that can be downloaded.
    """

    data: Path
    results: Path
    datasets_tsv: Path


@dataclass(frozen=True)
class StageEstimate:
    """The remaining jobs of one stage.

    Expected values are sums over the ``known`` jobs with ``equal_runs`` equal runs measured before.
    """

    stage: str
    jobs: int
    done: int
    largest_nodes: int
    limit_node_hours: Amount
    limit_core_hours: Amount
    expected_node_hours: Amount
    known: int
    equal_runs: int


@dataclass(frozen=True)
class WallTime:
    """Wall time of all training jobs, for one width."""

    width: int
    limit_s: Amount
    expected_s: Amount


@dataclass(frozen=True)
class FileCount:
    """Files created on the shared file system for one reason."""

    cause: str
    files: Amount


@dataclass(frozen=True)
class Estimate:
    """Remaining cost of a campaign."""

    study: str
    machine: str
    nodes: int
    cores_per_node: int
    disturbed_repeats: int
    """Most repeats of a disturbed run within its job; the limits include them."""
    stages: tuple[StageEstimate, ...]
    wall_times: tuple[WallTime, ...]
    datasets: tuple[DatasetEstimate, ...]
    scratch: tuple[tuple[str, Amount], ...]
    """Node-local bytes that a benchmark needs on its fullest node."""
    results_bytes: Amount
    files: tuple[FileCount, ...]
    free_bytes: Amount
    warnings: tuple[str, ...]


def estimate_campaign(campaign: Campaign, places: Places, like: Sequence[Path], width: int | None) -> Estimate:
    """Return the remaining work of a campaign, and its cost.

    Parameters
    ----------
    campaign
        The checked study.
    places
        Locations of its files.
    like
        Results folders with runs that may equal planned ones; the campaign's own is always included.
    width
        Largest number of concurrent jobs; None for one after another only.

    Raises
    ------
    DatasetError
        If a manifest or datasets.tsv is damaged.
    """
    own = [places.results] if places.results.is_dir() else []
    training = training_jobs(campaign, places.results, read_experience([*like, *own]))
    jobs = [*other_jobs(campaign, places.data, places.results), *training]
    archives = read_catalogue(places.datasets_tsv) if _downloads(campaign) else {}
    datasets = tuple(
        estimate_dataset(benchmark, places.data / name, archives) for name, benchmark in campaign.datasets.items()
    )
    machine = campaign.machine
    widths = sorted({1, width or 1})
    storage = {dataset.name: dataset for dataset in datasets}
    free = _free(places.data)
    results_bytes = _results_bytes(training)
    return Estimate(
        study=campaign.study.name,
        machine=machine.name,
        nodes=machine.nodes,
        cores_per_node=machine.cores_per_node,
        disturbed_repeats=campaign.study.limits.disturbance.repeats,
        stages=tuple(_stages(jobs, machine.cores_per_node)),
        wall_times=tuple(_wall_time(training, one, machine.nodes) for one in widths),
        datasets=datasets,
        scratch=tuple(_scratch(campaign, storage)),
        results_bytes=results_bytes,
        files=tuple(_files(jobs, datasets)),
        free_bytes=free,
        warnings=tuple(_warnings(campaign, datasets, free, (training, results_bytes, width))),
    )


def _downloads(campaign: Campaign) -> bool:
    return any(benchmark.data.source == "download" for benchmark in campaign.benchmarks.values())


def _stages(jobs: Sequence[Jobs], cores_per_node: int) -> Iterable[StageEstimate]:
    for stage in dict.fromkeys(one.stage for one in jobs):
        own = [one for one in jobs if one.stage == stage]
        left = [one for one in own if one.left]
        known = [one for one in left if one.taken]
        limit = _node_hours(left, [one.limit_s for one in left], "declared", _LIMITS)
        expected = _node_hours(known, [one.taken.wall_s if one.taken else None for one in known], "modelled", _MEDIANS)
        if left and not known:
            expected = unknown("no equal job was measured")
        cores = None if limit.value is None else limit.value * cores_per_node
        yield StageEstimate(
            stage=stage,
            jobs=sum(one.count for one in own),
            done=sum(one.done for one in own),
            largest_nodes=max(one.nodes for one in own),
            limit_node_hours=limit,
            limit_core_hours=Amount(cores, limit.method, limit.source),
            expected_node_hours=expected,
            known=sum(one.left for one in known),
            equal_runs=sum(one.taken.n for one in known if one.taken),
        )


def _node_hours(jobs: Sequence[Jobs], times_s: Sequence[float | None], method: Method, source: str) -> Amount:
    known = [time_s for time_s in times_s if time_s is not None]
    if len(known) < len(jobs):
        return unknown("the study declares no limit")
    hours = (one.left * one.nodes * time_s / HOUR_S for one, time_s in zip(jobs, known, strict=True))
    return Amount(math.fsum(hours), method, source)


def _wall_time(jobs: Sequence[Jobs], width: int, nodes: int) -> WallTime:
    """Return the duration of the training jobs; expected values omit jobs without an equal measured one."""
    limits = [(one.limit_s, one.nodes) for one in jobs if one.limit_s for _ in range(one.left)]
    taken = [(one.taken.wall_s, one.nodes) for one in jobs if one.taken for _ in range(one.left)]
    left = sum(one.left for one in jobs)
    expected = Amount(schedule_s(taken, width, nodes), "modelled", f"{len(taken)} of {left} jobs, {_MEDIANS}")
    if left and not taken:
        expected = unknown("no equal job was measured")
    return WallTime(width, Amount(schedule_s(limits, width, nodes), "upper bound", _LIMITS), expected)


def _scratch(campaign: Campaign, datasets: Mapping[str, DatasetEstimate]) -> Iterable[tuple[str, Amount]]:
    """Yield the needs of each benchmark that stages data, on its fullest node."""
    for name, benchmark in campaign.benchmarks.items():
        if benchmark.staging.place != "node_local":
            continue
        content = datasets[benchmark.data.dataset].content_bytes
        if content.value is None:
            yield name, content
            continue
        share, words = _largest_share(campaign, name, benchmark)
        yield name, Amount(content.value * share, content.method, words)


def _largest_share(campaign: Campaign, name: str, benchmark: Benchmark) -> tuple[float, str]:
    """Return the number of copies of the content on the fullest node, with the reason."""
    split = benchmark.staging.partition == "split"
    shares = [(1 / row.nodes if split else 1.0, row.scale) for row in campaign.rows if row.benchmark == name]
    for row in campaign.weak_rows:
        if row.benchmark == name:
            sharing = Sharing.of(campaign.machine, row.nodes, row.ranks_per_node, row.instances)
            together = min(row.instances, sharing.per_block)
            shares.append((together / (row.nodes if split else 1), f"weak {row.scale}, {together} side by side"))
    share, scale = max(shares, default=(1.0, "no run"))
    return share, f"{benchmark.staging.partition}, {scale}"


def _results_bytes(training: Sequence[Jobs]) -> Amount:
    """Return the size of the run folders, if equal runs are available for comparison."""
    left = [one for one in training if one.left]
    known = [one for one in left if one.taken]
    if left and not known:
        return unknown("no equal job was measured")
    count, of = sum(one.left for one in known), sum(one.left for one in left)
    total = sum(one.left * one.taken.bytes for one in known if one.taken)
    return Amount(total, "modelled", f"{count} of {of} jobs, {_MEDIANS}; tables and figures not counted")


def _files(jobs: Sequence[Jobs], datasets: Sequence[DatasetEstimate]) -> Iterable[FileCount]:
    """Yield the number of files that the remaining jobs create; existing datasets create none."""
    yield FileCount("samples", _sum([one.sample_files for one in datasets if not one.ready]))
    yield FileCount("shards", _sum([one.shard_files for one in datasets if not one.packed]))
    for stage, own in (("timed runs", ()), ("profiles", PROFILE_FILES), ("weak groups", INSTANCE_FILES)):
        folders = sum(one.left * one.parts for one in jobs if one.stage == stage)
        groups = sum(one.left for one in jobs if one.stage == "weak groups") if stage == "weak groups" else 0
        each = len(RUN_FILES) + len(own) + (stage == "profiles")
        words = f"{each} for each run" + (" at least" if stage == "profiles" else "")
        yield FileCount(stage, Amount(folders * each + groups, "modelled", words))
    # Snakemake writes one log and one note per job; a plan is its own job.
    plans = sum(one.left * one.parts for one in jobs if one.limit_s)
    noted = sum(one.left for one in jobs) + plans
    yield FileCount("logs", Amount(noted, "modelled", "one for each job; Slurm logs are removed after success"))
    yield FileCount("Snakemake's notes", Amount(noted, "modelled", "one for each output"))


def _sum(amounts: Sequence[Amount]) -> Amount:
    values = [one.value for one in amounts if one.value is not None]
    if len(values) < len(amounts):
        return unknown("; ".join(sorted({one.source for one in amounts if one.value is None})))
    order: tuple[Method, ...] = ("upper bound", "modelled", "declared", "measured")
    methods = {one.method for one in amounts}
    weakest: Method = next((method for method in order if method in methods), "declared")
    return Amount(math.fsum(values), weakest, "; ".join(sorted({one.source for one in amounts})) or "all is there")


def _free(folder: Path) -> Amount:
    """Return the free space at the location of an existing or future folder."""
    place = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.is_dir())
    return Amount(shutil.disk_usage(place).free, "measured", "file system of data/ as seen from here, without quotas")


def _warnings(
    campaign: Campaign,
    datasets: Sequence[DatasetEstimate],
    free: Amount,
    runs: tuple[Sequence[Jobs], Amount, int | None],
) -> Iterable[str]:
    training, results_bytes, width = runs
    # Archives are kept with the samples: where these are ready, both are on the disk already.
    wanted = [size for one in datasets if not one.ready for size in (one.sample_bytes, one.archive_bytes)]
    wanted += [one.shard_bytes for one in datasets if not one.packed] + [results_bytes]
    known = math.fsum(one.value for one in wanted if one.value is not None)
    if free.value is not None and known > free.value:
        yield TOO_LARGE(needed=say_bytes(known), free=say_bytes(free.value))
    missing = sum(one.value is None for one in wanted)
    if missing:
        yield f"storage: {missing} of {len(wanted)} sizes are unknown; the free space may be insufficient"
    nodes = campaign.machine.nodes
    largest = max((one.nodes for one in training if one.left), default=0)
    if width and width * largest > nodes:
        fit = nodes // largest
        yield TOO_WIDE(fit=fit, width=width, largest=largest, nodes=nodes)
    yield "node-local space cannot be checked from here: compare it with the table; each run checks it before staging"
