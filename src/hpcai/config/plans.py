"""A checked study: its machine, its benchmarks, its run tables, and the plan of each of its runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcai.catalogue.profiles import PROFILES
from hpcai.config.machine import Machine
from hpcai.config.runs import Point, ProfileKind, RunKind, RunPlan, RunRow, WeakRow, derive_seed
from hpcai.config.study import Study
from hpcai.config.workloads import Benchmark


@dataclass(frozen=True)
class Campaign:
    """A checked study: the study file, its machine, its benchmarks, its run tables, and files of published results."""

    study: Study
    machine: Machine
    benchmarks: dict[str, Benchmark]
    rows: tuple[RunRow, ...]
    published: tuple[Path, ...] = ()
    weak_rows: tuple[WeakRow, ...] = ()

    @property
    def datasets(self) -> dict[str, Benchmark]:
        """One benchmark per dataset, by the dataset's name."""
        return {benchmark.data.dataset: benchmark for benchmark in reversed(self.benchmarks.values())}

    def plans(self) -> Mapping[str, RunPlan]:
        """Return the plan of every timed run, by its run id."""
        return Plans(self, ((row, number) for row in self.rows for number in range(1, row.repeats + 1)))

    def rounds(self) -> tuple[str, ...]:
        """Return the ids of all timed runs in the best order of measurement.

        Repeat 1 of all points comes first, then repeat 2, so that drift of the machine affects all points alike. Within
        a round, the scales and variants of a benchmark are adjacent, so that compared values are measured close
        together.
        """
        first = {row.benchmark: number for number, row in reversed(list(enumerate(self.rows)))}
        points = sorted(self.rows, key=lambda row: first[row.benchmark])
        most = max((row.repeats for row in points), default=0)
        runs = ((row, number) for number in range(1, most + 1) for row in points if number <= row.repeats)
        return tuple(row.run_id("timed", number) for row, number in runs)

    def profiles(self, profile: ProfileKind) -> Mapping[str, RunPlan]:
        """Return the plans of one kind of profiled runs: one per benchmark and variant, at its largest scale.

        A kind may request the smallest scale instead. The study may restrict the variants (``profile_variants``).
        """
        kind = PROFILES[profile]
        chosen: dict[tuple[str, str], RunRow] = {}
        wanted = self.study.profile_variants
        for row in sorted(self.rows, key=lambda row: row.ranks, reverse=kind.smallest_scale):
            if not wanted or row.variant in wanted:
                chosen[row.benchmark, row.variant] = row
        steps = getattr(self.study, kind.steps)
        return Plans(self, ((row, 1) for row in chosen.values()), "profiled", profile=profile, max_steps=steps)

    def weak_plans(self) -> Mapping[str, RunPlan]:
        """Return the plan of every instance of every weak-scaling group, by its run id."""
        return Plans(self, ((row, number) for row in self.weak_rows for number in range(1, row.instances + 1)), "weak")

    def plan(self, row: RunRow | WeakRow, repetition: int, kind: RunKind = "timed", **profile: object) -> RunPlan:
        """Return the plan of one repetition, or of one instance, of one row."""
        benchmark = self.benchmarks[row.benchmark]
        # HPC AI500 starts the clock at the first training batch (V2.0, 6.2).
        suite = benchmark.suite
        fields: dict[str, Any] = {
            "study": self.study.name,
            "benchmark": benchmark,
            "machine": self.machine,
            "point": Point(**row.model_dump(exclude={"repeats", "instances"})),
            "repetition": repetition,
            "seed": self.seed(row.run_id(kind, repetition), str(profile.get("profile", kind))),
            "seeds": self.study.seeds,
            "kind": kind,
            "instances": row.instances if isinstance(row, WeakRow) else None,
            "rule_set": self.study.rule_set,
            "time_staging": self.study.time_staging and suite == "mlperf_hpc",
            "limits": self.study.limits,
            "requires_acceptance_s": self.study.requires_acceptance,
            "submission": self.study.submission,
        }
        return RunPlan(**fields, **profile)

    def acceptance_plan(self) -> RunPlan:
        """Return the plan of the short training that every node does when the machine is accepted.

        The point is the smallest of its benchmark in the run table, on one whole node. Each node draws a seed.
        """
        study = self.study
        name = study.acceptance.benchmark or next(iter(self.benchmarks))
        rows = sorted((row for row in self.rows if row.benchmark == name), key=lambda row: row.ranks)
        usual = {"variant": rows[0].variant, "precision": rows[0].precision, "engine": rows[0].engine} if rows else {}
        size = {"nodes": 1, "ranks_per_node": self.machine.ranks_per_node}
        quiet = study.limits.disturbance.model_copy(update={"repeats": 0})
        limits = study.limits.model_copy(update={"disturbance": quiet, "run_s": study.acceptance.limit_s})
        return RunPlan(
            study=study.name,
            benchmark=self.benchmarks[name],
            machine=self.machine,
            point=Point.model_validate({"benchmark": name, "variant": "fp32", **usual, **size}),
            repetition=1,
            seed=None,
            seeds="entropy",
            kind="profiled",
            max_steps=study.acceptance.training_steps,
            rule_set=study.rule_set,
            time_staging=study.time_staging,
            limits=limits,
            submission=study.submission,
        )

    def seed(self, run_id: str, kind: str) -> int | None:
        """Return the seed of a run of a kind (for a profiled run: its profile); None for a seed from entropy."""
        return derive_seed(self.study.seed, f"{kind}/{run_id}") if self.study.seeds == "derived" else None


class Plans(Mapping[str, RunPlan]):
    """Plans by run id, created on demand: a study may have ten thousand, and a job needs one of them."""

    def __init__(
        self,
        campaign: Campaign,
        runs: Iterable[tuple[RunRow | WeakRow, int]],
        kind: RunKind = "timed",
        **profile: Any,  # noqa: ANN401  settings of a profiled run
    ) -> None:
        self._runs = {row.run_id(kind, number): (row, number) for row, number in runs}
        self._campaign, self._kind, self._profile = campaign, kind, profile

    def __getitem__(self, run_id: str) -> RunPlan:
        """Return the plan of a run."""
        row, number = self._runs[run_id]
        return self._campaign.plan(row, number, self._kind, **self._profile)

    def __contains__(self, run_id: object) -> bool:
        """Return whether the study has this run."""
        return run_id in self._runs

    def __iter__(self) -> Iterator[str]:
        """Return the run ids, in the order of the run table."""
        return iter(self._runs)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._runs)
