"""Entries from files of declared results, as in `config/published/`: numbers alone, which nobody can judge."""

import datetime
import math
from collections.abc import Mapping
from pathlib import Path

from hpcai.config.published import Published, load_published
from hpcai.core.messages import Message
from hpcai.listing.content import SCORES, Content, data_of, numbers_from, shorten, whole
from hpcai.listing.entries import Entry, File, Machine, Number, Verdict, make_id
from hpcai.listing.entry_parts import facts_below, refuse_future, remarks_of, rules_shared
from hpcai.metrics.cells import Row, number_of, records_of, text_of
from hpcai.metrics.scores.declared import declared_scores
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.rules.table import rules_of
from hpcai.workloads.registry import title_of

NAMED = {"title", "device"}
"""Facts of a machine that have fields of their own."""
NO_SCORE = Message(
    "declared.no_score", "not measured: only numbers are declared, and the score is computed from records"
)


def read_declared(path: Path, name: str, files: Mapping[str, File], today: datetime.date, organisation: str) -> Content:
    """Return the entries of a file of declared results, as in `config/published/`.

    Raises
    ------
    ConfigError
        If the file is not valid.
    ParseError
        If its document is dated in the future.
    """
    published = load_published(path)
    refuse_future(published.citation.date.isoformat(), today, "citation.date")
    org = organisation or "declared"
    evidence = tuple(files.values())
    entries = [_declared_entry(row, published, name, org, evidence) for row in records_of(declared_scores(published))]
    machines = [
        Machine(
            id=make_id(org, key), name=shorten(machine.title), organisation=shorten(org), accelerator=machine.device,
            family=name_family(machine.device),
            facts=tuple(facts_below(machine.model_dump(mode="json", exclude=NAMED))),
        )
        for key, machine in published.machines.items()
    ]  # fmt: skip
    return Content(entries=tuple(entries), machines=tuple(machines))


def _declared_entry(row: Row, published: Published, name: str, org: str, evidence: tuple[File, ...]) -> Entry:
    machine, target = published.machines[str(row["machine"])], number_of(row, "quality_target")
    numbers: list[Number] = numbers_from(row, SCORES, "scores", f"declared: {text_of(row['score_method'])}", None)
    title = f"{title_of(str(row['workload']))} ({rules_of(row['suite']).title})"
    return Entry(
        id=make_id(str(row["benchmark"]), published.name, org, str(row["result"])),
        title=shorten(f"{title} on {machine.title}"),
        benchmark_title=title,
        basis="declared",
        suite=row["suite"],
        round=published.name,
        benchmark=str(row["benchmark"]),
        workload=str(row["workload"]),
        dataset=shorten(str(row["dataset"])),
        data=data_of(str(row["dataset"])),
        division="",
        organisation=shorten(org),
        machine=make_id(org, str(row["machine"])),
        system=shorten(machine.title),
        variant=str(row["variant"]),
        nodes=whole(number_of(row, "nodes")),
        units=machine.devices_of(whole(number_of(row, "nodes")), whole(number_of(row, "ranks"))),
        unit="accelerator" if machine.device or machine.devices_per_node else "process",
        accelerator=machine.device,
        family=name_family(machine.device),
        year=published.citation.date.year,
        quality_metric=str(row["quality_metric"]),
        quality_target=target if math.isfinite(target) else None,
        rules=rules_shared("", number_of(row, "exponent"), number_of(row, "flop_per_sample")),
        numbers=tuple(numbers),
        verdict=Verdict(
            status="not judged",
            judge="",
            label=str(row["label"]),
            checked=("the form of the declaration",),
            reasons=tuple(remarks_of(row)),
        ),
        evidence=evidence,
        no_reproducibility=NO_SCORE(),
        submission=name,
    )
