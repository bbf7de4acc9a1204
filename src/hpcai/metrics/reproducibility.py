"""How well a run could be repeated by others, 0 to 100, from what its record holds.

IO500 asks for the same in a questionnaire; here the record answers. The weights are our choice and are documented
(docs/explanation/reproducibility.md); every item names what would raise it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import RecordError
from hpcai.core.messages import Message
from hpcai.metrics.cells import records_of
from hpcai.metrics.run_tables import RUN_TWICE
from hpcai.records.run import FINISHED, RunRecord
from hpcai.rules.table import rules_of

RAISE = {
    one.code.partition(".")[2]: one
    for one in (
        Message("reproducibility.no_commit", "measure from a checkout, so that the record names its commit"),
        Message("reproducibility.changed_code", "commit your changes before you measure"),
        Message("reproducibility.no_lock", "install with `make env`, which notes the lock file"),
        Message(
            "reproducibility.no_framework",
            "record the version of the training framework: measure in this project's environment",
        ),
        Message("reproducibility.no_seed", "let the run end, so that its seed is in the report"),
        Message(
            "reproducibility.data_of_the_site",
            "use data with a published checksum, or generated data: the origin of this copy is not known",
        ),
        Message("reproducibility.no_data_digest", "make the manifest of the dataset again"),
        Message("reproducibility.not_packed", "pack the dataset, so that the shards have checksums of their own"),
        Message("reproducibility.no_raw_files", "measure again: no raw file with a checksum is in the record"),
        Message("reproducibility.no_placement", "let the run end, so that each rank reports its node and cores"),
        Message(
            "reproducibility.no_accelerator_names",
            "record the accelerator's UUID of each rank: install nvidia-ml-py on the nodes",
        ),
        Message("reproducibility.no_command", "measure again: the command that started the ranks is not in the record"),
        Message("reproducibility.no_launch_time", "let the run end, so that its launch is timed"),
        Message(
            "reproducibility.launched_elsewhere",
            "start the measurement on the node of the first rank, so that one clock times the launch",
        ),
        Message("reproducibility.no_peak", "declare the peak of this precision with its source in the machine file"),
        Message(
            "reproducibility.no_power",
            "declare the power of a node with its source in the machine file, or measure it",
        ),
        Message(
            "reproducibility.no_disturbance",
            "measure with a kernel that keeps accounts, so that use by others is known",
        ),
        Message("reproducibility.disturbed", "repeat the run on a quiet machine"),
        Message(
            "reproducibility.page_cache",
            "permit dropping the page cache, so that every run starts from the same state",
        ),
        Message("reproducibility.few_repeats", "repeat the point as often as the rules ask"),
    )
}
"""What would raise an item, by the name of the part that lacks."""
FRAMEWORKS = ("tensorflow", "tensorflow-cpu", "jax")
MEASURED = "measured"
"""Method of a power that was not declared, in the scores of the runs."""
RUN_SCORES = Path("tables/run_scores.parquet")
"""The scores of the runs, in a results folder."""
NO_RUN_SCORES = Message(
    "reproducibility.no_run_scores",
    "{folders}: found no {file}, so that measured power is left out here; `snakemake scores` writes it",
)


@dataclass(frozen=True)
class Item:
    """Points of one item of a record, and what would raise them; blank at full points."""

    points: float
    advice: str = ""


Judge = Callable[[RunRecord], Item]


def _parts(*parts: tuple[float, bool, str]) -> Item:
    """Return the points of the parts that hold, and the advice of the others."""
    return Item(
        sum(points for points, holds, _ in parts if holds),
        "; ".join(RAISE[name]() for _, holds, name in parts if not holds),
    )


def _code(record: RunRecord) -> Item:
    origin = record.provenance
    return _parts((6, bool(origin.commit), "no_commit"), (6, origin.dirty is False, "changed_code"))


def _software(record: RunRecord) -> Item:
    origin = record.provenance
    framework = any(name in origin.software for name in FRAMEWORKS)
    return _parts((8, bool(origin.lock_sha256), "no_lock"), (4, framework, "no_framework"))


def _seed(record: RunRecord) -> Item:
    return _parts((6, record.training is not None or record.plan.seed is not None, "no_seed"))


def _data(record: RunRecord) -> Item:
    packed = not record.plan.benchmark.is_packed or bool(record.provenance.pack_digest)
    return _parts(
        (8, record.data_source != "existing", "data_of_the_site"),
        (5, bool(record.provenance.data_digest), "no_data_digest"),
        (3, packed, "not_packed"),
    )


def _raw(record: RunRecord) -> Item:
    return _parts((10, bool(record.artefacts), "no_raw_files"))


def _placement(record: RunRecord) -> Item:
    places = [rank.placement for rank in record.ranks]
    known = len(places) == record.plan.point.ranks and all(place.hostname and place.cores for place in places)
    on_cpu = record.plan.machine.device.kind == "cpu"
    named = known and (on_cpu or all(place.accelerator_uuid for place in places))
    return _parts((5, known, "no_placement"), (3, named, "no_accelerator_names"))


def _launcher(record: RunRecord) -> Item:
    # A run that ended lacks its launch only if the clocks of two nodes saw its ends.
    untimed = "launched_elsewhere" if record.training else "no_launch_time"
    return _parts((4, bool(record.provenance.command), "no_command"), (2, record.launch_s is not None, untimed))


def _peaks(record: RunRecord) -> Item:
    return _parts((6, record.plan.point.precision in record.plan.machine.device.peaks, "no_peak"))


def _power(record: RunRecord) -> Item:
    return _parts((4, record.plan.machine.power is not None, "no_power"))


def _disturbance(record: RunRecord) -> Item:
    watched = bool(record.disturbance)
    quiet = watched and not record.is_disturbed and not record.is_stalled
    return _parts((4, watched, "no_disturbance"), (6, quiet, "disturbed"))


def _page_cache(record: RunRecord) -> Item:
    return _parts((4, record.provenance.page_cache == "dropped", "page_cache"))


ITEMS: Mapping[str, tuple[float, Judge]] = {
    "code": (12, _code),
    "software": (12, _software),
    "seed": (6, _seed),
    "data": (16, _data),
    "raw_files": (10, _raw),
    "placement": (8, _placement),
    "launcher": (6, _launcher),
    "peaks": (6, _peaks),
    "power": (4, _power),
    "disturbance": (10, _disturbance),
    "page_cache": (4, _page_cache),
}
"""Items of a single record, with their most points; the repeats of the point add the rest to 100."""
REPEATS, REPEAT_POINTS = "repeats", 6.0
MOST = {**{name: points for name, (points, _) in ITEMS.items()}, REPEATS: REPEAT_POINTS}
"""Most points of each item."""
FULL = sum(MOST.values())
"""100."""
METHOD = "computed from the records; each item with the fewest points of the runs"


def judge_record(record: RunRecord) -> dict[str, Item]:
    """Return the items of one record by name, without the repeats, which no single record holds."""
    return {name: judge(record) for name, (_, judge) in ITEMS.items()}


def judge_repeats(records: Sequence[RunRecord]) -> Item:
    """Return the item of the repeats of one point: the share of the runs by rule that trained to their end."""
    benchmark = records[0].plan.benchmark
    needed = rules_of(benchmark.suite).results.runs_of(benchmark.workload)
    share = min(1.0, sum(record.outcome in FINISHED for record in records) / needed)
    return Item(REPEAT_POINTS * share, "" if share == 1 else RAISE["few_repeats"]())


def is_metered(trials: Iterable[Mapping[Any, Any]]) -> bool:
    """Return whether the power of a point was measured, by the rows of `run_scores` of its runs.

    A meter that misses a part of what computes has none there, and runs that did not train to their end have a blank.
    """
    return any(trial.get("power_method") == MEASURED for trial in trials)


def runs_of_studies(found: Iterable[tuple[Path, RunRecord]]) -> dict[tuple[str, str], dict[Path, RunRecord]]:
    """Return the runs of each study on each machine, by their files; only those are repeats of each other.

    Raises
    ------
    RecordError
        If a run of a study on a machine is there twice.
    """
    studies: dict[tuple[str, str], list[tuple[Path, RunRecord]]] = {}
    for path, record in found:
        studies.setdefault((record.plan.study, record.plan.machine.name), []).append((path, record))
    for runs in studies.values():
        times = Counter(record.run_id for _, record in runs)
        twice = [f"{record.run_id} in {path}" for path, record in runs if times[record.run_id] > 1]
        if twice:
            raise RecordError(RUN_TWICE(found=", ".join(twice)))
    return {key: dict(runs) for key, runs in studies.items()}


def reproducibility_table(records: Iterable[RunRecord], run_scores: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the score of each point: of every item the fewest points of its runs.

    Parameters
    ----------
    records
        Records of the timed runs of one study on one machine.
    run_scores
        The scores of its runs: a point whose power was measured (`is_metered`) has the points of power as well.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `reproducibility`; `reproducibility_score` is from 0 to 100, `advice` names what would
        raise it, most points first.
    """
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        groups.setdefault(tuple(str(getattr(record.plan.point, name)) for name in POINT), []).append(record)
    scored = {} if run_scores is None else {str(row["run_id"]): row for row in records_of(run_scores)}
    rows = []
    for key in sorted(groups):
        trials = [scored[record.run_id] for record in groups[key] if record.run_id in scored]
        rows.append(_row(key, groups[key], metered=is_metered(trials)))
    return pd.DataFrame(rows, columns=list(columns_of("reproducibility")))


def lacks_power(table: pd.DataFrame) -> bool:
    """Return whether a point of the table has not all points of power."""
    return bool((table["power_points"] < MOST["power"]).any())


def judge_point(records: Sequence[RunRecord], *, metered: bool) -> dict[str, Item]:
    """Return all items of one point by name: of each the one with the fewest points of its runs.

    Parameters
    ----------
    records
        Records of the runs of one point, at least one.
    metered
        Whether the power of the point was measured.
    """
    judged = [judge_record(record) for record in records]
    worst = {name: min((one[name] for one in judged), key=lambda item: item.points) for name in ITEMS}
    if metered:
        worst["power"] = Item(ITEMS["power"][0])
    return {**worst, REPEATS: judge_repeats(records)}


def _row(key: tuple[str, ...], records: Sequence[RunRecord], *, metered: bool) -> dict[str, Any]:
    items = judge_point(records, metered=metered)
    lost = sorted((name for name in items if items[name].advice), key=lambda name: items[name].points - MOST[name])
    return {
        **dict(zip(POINT, key, strict=True)),
        "nodes": records[0].plan.point.nodes,
        "ranks": records[0].plan.point.ranks,
        "n": len(records),
        "reproducibility_score": sum(item.points for item in items.values()),
        **{f"{name}_points": item.points for name, item in items.items()},
        "advice": "; ".join(items[name].advice for name in lost),
        "method": METHOD,
        "source": f"results/runs/{'/'.join(records[0].run_id.split('/')[:-1])}",
    }
