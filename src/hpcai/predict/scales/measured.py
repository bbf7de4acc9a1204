"""What predictions of scales stand on: a results folder, with the blocks that were timed on its machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.config.machine import Machine
from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import ConfigError, ParseError
from hpcai.core.messages import Message, at
from hpcai.core.table_files import read_parquet
from hpcai.predict.messages import Gradients
from hpcai.predict.scales.learnt import Learnt, learn
from hpcai.predict.scales.parts import Floats
from hpcai.predict.steps.report import BlocksReport, StepTimes, find_blocks
from hpcai.predict.what_if.measured import Point, measured_points
from hpcai.records.files import RAW, check_raw_file, read_part, read_record
from hpcai.records.run import RunRecord

FEWEST_STEPS = 20
"""Timed steps of one rank, before anything is said of how they scatter."""
NEEDED = {
    "scales": (
        *(*POINT, "nodes", "ranks", "precision", "compression", "accumulation", "spatial_parts", "part_bytes"),
        *("fusion_bytes", "global_batch_samples", "step_time_median_s"),
        *("n_disturbed", "others_max_ratio", "steal_max_ratio"),
    ),
    "links": ("what", "engine", "scope", "ranks", "bytes", "time_s", "time_min_s"),
    "contention": ("benchmark", "ranks", "instances", "contention_ratio"),
    "runs": (*POINT, "machine", "started_utc"),
}
"""Columns of the tables that predictions cannot do without."""
NO_TABLES = Message("scales.no_tables", "no table {name}: found no study's results, expected those of `hpcai run`")
OTHER_VERSION = Message(
    "scales.other_version",
    "written by another version, without the columns {missing}; `snakemake report --config measure=false` writes it "
    "anew from the runs",
)


@dataclass(frozen=True)
class MeasuredScales:
    """Scales of a study, and the parts that predict them.

    Attributes
    ----------
    points
        Scales with a step time.
    steps
        Timed blocks; empty: none were.
    contention
        Table ``contention``: independent trainings at once.
    links
        View ``links``: allreduces by size.
    scatter
        By benchmark, steps of one rank over their median, in ascending order; none where too few were timed.
    shared_core
        Whether one core of a rank computes and transfers.
    sources
        The files.
    core_assumed
        Whether no record tells that.
    """

    points: tuple[Point, ...]
    steps: tuple[StepTimes, ...]
    contention: pd.DataFrame
    links: pd.DataFrame
    scatter: Mapping[str, Floats]
    shared_core: bool
    sources: tuple[str, ...]
    core_assumed: bool = False

    @cached_property
    def learnt(self) -> Learnt:
        """What these scales tell of input and exchange; without a scale (`replace`), it is learnt again."""
        return learn(self)

    def scatter_of(self, benchmark: str) -> Floats | None:
        """Return the scatter of a benchmark's own steps, else that of all others' together; None: not known."""
        if benchmark in self.scatter or not self.scatter:
            return self.scatter.get(benchmark)
        return np.sort(np.concatenate(list(self.scatter.values())))

    def gradients(self, benchmark: str) -> Gradients:
        """Return what a benchmark exchanges: nothing if its blocks were not timed."""
        known = (one for one in self.steps if one.network == benchmark and one.parameters)
        return next((Gradients(one.parameters, one.gradient_sizes) for one in known), Gradients(0))


@dataclass(frozen=True)
class ScaleFiles:
    """Where the parts are; no blocks: a step at another batch is not predicted."""

    scales: Path
    links: Path
    contention: Path
    blocks: Path | None


def find_files(results: Path, machine: str | None = None) -> ScaleFiles:
    """Return the files of a results folder.

    Parameters
    ----------
    results
        Of a study whose tables are written.
    machine
        Whose blocks; None: the only one that has any.

    Raises
    ------
    ConfigError
        If it is no results folder, or there are several machines.
    """
    found = {name: results / f"tables/{name}.parquet" for name in ("scales", "links", "contention")}
    missing = next((file for file in found.values() if not file.is_file()), None)
    if missing:
        raise ConfigError(at(str(results), NO_TABLES(name=f"tables/{missing.name}")))
    return ScaleFiles(**found, blocks=find_blocks(results, machine))


def read_measured_scales(files: ScaleFiles, runs: Path) -> MeasuredScales:
    """Read what was measured.

    Parameters
    ----------
    files
        Tables and blocks.
    runs
        Folder of the timed runs, whose steps tell how they scatter.
    """
    scales, links, contention = (read_table(file) for file in (files.scales, files.links, files.contention))
    points = measured_points(scales)
    steps = read_part(BlocksReport, files.blocks).steps if files.blocks else ()
    records = read_records(runs, points)
    machines = read_machines(records, runs, points)
    # Without any record, as on the processors that most studies run on; each answer says that it is assumed.
    shared = all(machine.cores_per_rank == 1 and machine.device.kind == "cpu" for machine in machines)
    sources = tuple(str(file) for file in (files.scales, files.links, files.contention, files.blocks) if file)
    scatter = read_scatter(records)
    return MeasuredScales(points, steps, contention, links, scatter, shared, sources, core_assumed=not machines)


def read_table(file: Path) -> pd.DataFrame:
    """Return a table of a results folder, named by its file.

    Raises
    ------
    TableError
        If it cannot be read.
    ConfigError
        If it has not the columns that predictions need.
    """
    table = read_parquet(file)
    if missing := [name for name in NEEDED[file.stem] if name not in table]:
        raise ConfigError(at(str(file), OTHER_VERSION(missing=", ".join(missing))))
    return table


Records = Mapping[str, Sequence[tuple[Path, RunRecord]]]


def read_records(runs: Path, points: Sequence[Point]) -> Records:
    """Return folders and records of the runs of one rank, by benchmark."""
    found: dict[str, list[tuple[Path, RunRecord]]] = {}
    for point in points:
        if point.setting.ranks == 1:
            files = _record_files(runs, point)
            found.setdefault(point.benchmark, []).extend((file.parent, read_record(file)) for file in files)
    return found


def read_machines(records: Records, runs: Path, points: Sequence[Point]) -> tuple[Machine, ...]:
    """Return the machine of each run of one rank; without any such run, that of the first run of each scale."""
    known = tuple(record.plan.machine for parts in records.values() for _, record in parts)
    return known or tuple(read_record(file).plan.machine for one in points for file in _record_files(runs, one)[:1])


def _record_files(runs: Path, point: Point) -> list[Path]:
    return sorted((runs / point.benchmark / point.variant / point.scale).glob("r*/record.json"))


def read_scatter(records: Records) -> dict[str, Floats]:
    """Return how steps of one rank scatter, by benchmark: each over the median of its run, without those that warm up.

    Parameters
    ----------
    records
        As `read_records` returns them. Runs whose raw files are gone have no steps.
    """
    joined = {
        name: np.sort(np.concatenate([_ratios(*one) for one in parts])) for name, parts in records.items() if parts
    }
    return {name: ratios for name, ratios in joined.items() if len(ratios) >= FEWEST_STEPS}


def _ratios(folder: Path, record: RunRecord) -> Floats:
    try:
        steps = pd.read_csv(check_raw_file(record, folder / RAW / "steps.csv"))
    except (ParseError, OSError):
        return np.empty(0)
    times_s = steps["step_time_s"].to_numpy(float)[WARM_STEPS:]
    return np.asarray(times_s / np.median(times_s)) if len(times_s) else times_s
