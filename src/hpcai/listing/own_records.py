"""What all entries from own runs share: checks of records and files, the machine, settings and evidence."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcai.catalogue.points import POINT
from hpcai.core.text import say_name
from hpcai.listing.content import plain, shorten
from hpcai.listing.entries import Check, File, Machine, Number, Reproducibility, Unit, Value, make_id
from hpcai.listing.entry_parts import facts_below
from hpcai.metrics.cells import Row, number_of
from hpcai.metrics.reproducibility import METHOD, MOST, judge_point
from hpcai.mlperf_hpc.analysis.study_names import TITLES
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.records.files import RAW, check_artefact
from hpcai.records.run import RunRecord
from hpcai.rules.table import rules_of

STUDY = "hpcai run with study.json"
"""What repeats the runs of a results folder."""
PRIVATE = ("profilers", "software", "hpl")
"""Parts of a machine file that say how to run something there, not what the machine is."""


def check_files(record: RunRecord, folder: Path) -> None:
    """Check the raw files of a run that are there; those left out are named by their digests alone."""
    raw = folder / RAW if (folder / RAW).is_dir() else folder
    for artefact in record.artefacts:
        if (raw / artefact.path).is_file():
            check_artefact(raw / artefact.path, artefact, folder)


def repeat_with(source: str, records: Sequence[RunRecord]) -> str:
    """Return how to repeat runs: from what, and with which version of the program."""
    return f"{source}, at commit {records[0].provenance.commit or 'unknown'}"


def accelerator_of(record: RunRecord) -> str:
    """Return the model that a run computed on, as its node told it: accelerator, or processor without any."""
    return _told(record, "cpu_model" if unit_of(record) == "node" else "accelerators")


def _told(record: RunRecord, fact: str) -> str:
    return shorten(str(record.provenance.machine_facts.get(fact) or ""))


def machine_of(record: RunRecord, org: str) -> Machine:
    """Return the machine of a run, with what its machine file declares."""
    machine = record.plan.machine
    declared = machine.model_dump(mode="json", exclude={"storage": {"node_local"}, **dict.fromkeys(PRIVATE, True)})
    return Machine(
        id=make_id(org, machine.name),
        name=machine.name,
        organisation=shorten(org),
        accelerator=accelerator_of(record) if unit_of(record) == "accelerator" else "",
        processor=_told(record, "cpu_model"),
        family=name_family(accelerator_of(record)),
        facts=tuple(facts_below(declared)),
    )


def units_of(record: RunRecord, nodes: int, ranks: int) -> int:
    """Return what a throughput is divided by: the accelerators that some ranks use, or their nodes if there are none.

    A record does not tell how many processors a node has, and how many ranks share one is everybody's choice.
    """
    return record.plan.machine.accelerators_of(nodes, ranks) or nodes


def unit_of(record: RunRecord) -> Unit:
    """Return what :func:`units_of` counts."""
    return "accelerator" if record.plan.machine.accelerators_per_node else "node"


def settings_of(record: RunRecord, row: Row) -> tuple[tuple[str, Value], ...]:
    """Return the settings of a point, with the software of a run."""
    point = record.plan.point.model_dump(mode="json")
    chosen = {**point, "global_batch_samples": plain(number_of(row, "global_batch_samples"))}
    software = {f"software {name}": value for name, value in record.provenance.software.items()}
    return tuple(
        (shorten(name), plain(value)) for name, value in (chosen | software).items() if value not in (None, "")
    )


def evidence_of(files: Mapping[str, File], records: Iterable[RunRecord]) -> tuple[File, ...]:
    """Return the files of some runs in a submission: records and what lies beside them, without raw files."""
    starts = tuple(f"{start}/{record.run_id}/" for record in records for start in ("runs", "logs", "weak"))
    return tuple(file for path, file in files.items() if path.startswith(starts) and f"/{RAW}/" not in path)


def point_of(row: Row) -> tuple[str, ...]:
    """Return benchmark, variant, engine and scale of a row of any table."""
    return tuple(str(row[name]) for name in POINT)


def facts_of(records: Sequence[RunRecord], study: str, org: str) -> dict[str, Any]:
    """Return the fields of an entry that say whose runs of what on which machine it has."""
    benchmark, machine = records[0].plan.benchmark, records[0].plan.machine
    accelerator = accelerator_of(records[0])
    years = [int(record.started_utc[:4]) for record in records if record.started_utc[:4].isdigit()]
    target = benchmark.target.value
    return {
        "basis": "measured",
        "suite": benchmark.suite,
        "round": shorten(study),
        "benchmark": benchmark.name,
        "benchmark_title": name_benchmark(records[0]),
        "workload": benchmark.workload,
        "organisation": shorten(org),
        "machine": make_id(org, machine.name),
        "system": machine.name,
        "unit": unit_of(records[0]),
        "accelerator": accelerator,
        "family": name_family(accelerator),
        "year": max(years, default=None),
        "quality_target": target if math.isfinite(target) else None,
        "runs_by_rule": rules_of(benchmark.suite).results.runs_of(benchmark.workload),
    }


def name_benchmark(record: RunRecord) -> str:
    """Return the readable name of a benchmark: that of the rounds if it is theirs, or what its file says."""
    benchmark = record.plan.benchmark
    return shorten(TITLES.get(benchmark.name, "") or benchmark.title)


def reproducibility_of(records: Sequence[RunRecord], *, metered: bool) -> Reproducibility:
    """Return the reproducibility score of one point, with what would raise each item.

    Parameters
    ----------
    records
        Records of its runs.
    metered
        Whether the power of the point was measured.
    """
    items = judge_point(records, metered=metered)
    checks = tuple(
        Check(name=say_name(name), points=item.points, most=MOST[name], reason=shorten(item.advice))
        for name, item in items.items()
    )
    return Reproducibility(score=sum(one.points for one in checks), checks=checks, method=METHOD)


def score_number(found: Reproducibility) -> Number:
    """Return a reproducibility score as a number of its entry."""
    return Number(
        quantity="reproducibility_score", unit="points of 100", value=found.score, method=found.method,
        source="records of the runs",
    )  # fmt: skip
