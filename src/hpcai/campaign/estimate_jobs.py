"""The jobs of a campaign, their time limits, and the durations of equal earlier jobs."""

import heapq
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.run_folders import present_folders
from hpcai.catalogue.profiles import PROFILES
from hpcai.config.plans import Campaign
from hpcai.config.runs import RunPlan
from hpcai.config.sharing import Sharing
from hpcai.core.errors import RecordError
from hpcai.measure.publish import CAPTURE, INSTANCE
from hpcai.records.files import RECORD, read_record
from hpcai.records.run import FINISHED, RunRecord
from hpcai.records.weak import GROUP


@dataclass(frozen=True)
class Taken:
    """Cost of equal earlier jobs: medians, and the number of jobs."""

    wall_s: float
    files: int
    bytes: int
    n: int


@dataclass(frozen=True)
class Jobs:
    """Equal jobs of one stage.

    Attributes
    ----------
    stage
        Such as "timed runs".
    what
        The point, or the subject of the measurement.
    count, done
        Number of jobs, and of those with a result.
    nodes
        Nodes of each job.
    limit_s
        Longest time of a run with its repeats (`Limits.longest_s`); None without a declared limit.
    taken
        Cost of equal jobs; None if none was measured.
    parts
        Run folders per job: the instances of a group, otherwise one.
    """

    stage: str
    what: str
    count: int
    done: int
    nodes: int
    limit_s: float | None
    taken: Taken | None = None
    parts: int = 1

    @property
    def left(self) -> int:
        """Remaining jobs."""
        return self.count - self.done


def training_jobs(campaign: Campaign, results: Path, before: Mapping[str, Taken]) -> list[Jobs]:
    """Return the training jobs: timed runs, profiles and weak-scaling groups.

    Parameters
    ----------
    campaign
        The checked study.
    results
        Its results folder, which need not exist.
    before
        :func:`read_experience` of results folders.
    """
    if not campaign.study.measure:
        return []
    jobs = []
    for row in campaign.rows:
        plan = campaign.plan(row, 1)
        folder = results / "runs" / Path(plan.run_id).parent
        done = sum((folder / f"r{number}" / RECORD).exists() for number in range(1, row.repeats + 1))
        jobs.append(_jobs("timed runs", plan, (row.repeats, done), before))
    for profile in PROFILES:
        for run_id, plan in campaign.profiles(profile).items():
            done = (results / "profiles" / profile / run_id / CAPTURE).exists()
            jobs.append(_jobs("profiles", plan, (1, int(done)), before))
    for weak in campaign.weak_rows:
        plan = campaign.plan(weak, 1, kind="weak")
        done = (results / "weak" / Path(plan.run_id).parent / GROUP).exists()
        jobs.append(_jobs("weak groups", plan, (1, int(done)), before))
    return jobs


def other_jobs(campaign: Campaign, data: Path, results: Path) -> list[Jobs]:
    """Return the jobs without a limit in the study: data, packing, machine characterisation, and predictions."""
    jobs = []
    for name, benchmark in campaign.datasets.items():
        jobs.append(_other("data", name, (data / name / "manifest.json").exists()))
        if benchmark.is_packed:
            jobs.append(_other("pack", name, (data / name / "packed" / "packed.json").exists()))
    if not campaign.study.measure:
        return jobs
    for stage, files in _measured_files(campaign).items():
        jobs += [_other(stage, file, (results / file).exists(), nodes) for file, nodes in files.items()]
    return jobs


def read_experience(folders: Iterable[Path]) -> dict[str, Taken]:
    """Return the cost of finished runs in results folders, by measurement (:func:`key_of`).

    Unreadable records are ignored.
    """
    found: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for results in folders:
        for name in present_folders(results):
            for key, taken in _taken_by(results / name):
                found[key].append(taken)
    return {key: _median(values) for key, values in found.items()}


def key_of(plan: RunPlan) -> str:
    """Return the key shared by equal measurements: the plan without its seed and number, and what is only declared."""
    return plan.model_copy(update={"seed": None, "repetition": 1}).with_declared(None).digest


def schedule_s(jobs: Sequence[tuple[float, int]], width: int, nodes: int) -> float:
    """Return the end of the last job if jobs start in order as soon as there is room.

    Parameters
    ----------
    jobs
        Duration [s] and nodes of each.
    width
        Largest number of concurrent jobs.
    nodes
        Nodes of the machine.
    """
    running: list[tuple[float, int]] = []
    now_s, free = 0.0, nodes
    for duration_s, wanted in jobs:
        while running and (len(running) >= width or free < wanted):
            now_s, released = heapq.heappop(running)
            free += released
        heapq.heappush(running, (now_s + duration_s, wanted))
        free -= wanted
    return max((end_s for end_s, _ in running), default=0.0)


def _jobs(stage: str, plan: RunPlan, counts: tuple[int, int], before: Mapping[str, Taken]) -> Jobs:
    nodes = plan.point.nodes
    if plan.instances is not None:
        nodes = Sharing.of(plan.machine, nodes, plan.point.ranks_per_node, plan.instances).nodes_needed
    name = str(Path(plan.run_id).parent)
    what = f"{name} {plan.profile}" if plan.profile else name
    taken, parts = before.get(key_of(plan)), plan.instances or 1
    return Jobs(stage, what, counts[0], counts[1], nodes, plan.limits.longest_s, taken, parts)


def _measured_files(campaign: Campaign) -> dict[str, dict[str, int]]:
    """Return the files below the results folder that one job each makes, with its nodes, by stage."""
    names = dict.fromkeys(row.benchmark for row in campaign.rows)
    ceilings = [f"characterise/{name}.json" for name in ("gemm", "convolution", "memory", "storage")]
    work = [f"characterise/work/{name}.json" for name in names]
    links = {f"characterise/allreduce_{row.link_name}.json": row.nodes for row in campaign.rows if row.ranks > 1}
    layers = [f"characterise/layers/{name}.json" for name in names]
    measured = campaign.study.predict.measured_files(campaign.machine.name).values()
    return {
        "characterisation": dict.fromkeys([*ceilings, *work], 1) | links,
        "predictions": dict.fromkeys(itertools.chain(*measured, layers), 1),
    }


def _other(stage: str, what: str, done: bool, nodes: int = 1) -> Jobs:
    return Jobs(stage, what, 1, int(done), nodes, None)


def _taken_by(folder: Path) -> Iterator[tuple[str, tuple[float, int, int]]]:
    """Yield the cost of the measurement in a folder, if it finished completely."""
    instances = sorted(path for path in folder.iterdir() if INSTANCE.fullmatch(path.name))
    records = [record for one in instances or [folder] if (record := _finished(one / RECORD))]
    if not records or len(records) < len(instances):
        return
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    yield key_of(records[0].plan), (max(record.wall_s for record in records), len(sizes), sum(sizes))


def _finished(path: Path) -> RunRecord | None:
    try:
        record = read_record(path)
    except RecordError:
        return None
    return record if record.outcome in FINISHED else None


def _median(values: Sequence[tuple[float, int, int]]) -> Taken:
    walls, files, sizes = zip(*values, strict=True)
    return Taken(statistics.median(walls), int(statistics.median(files)), int(statistics.median(sizes)), len(values))
