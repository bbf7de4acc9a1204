"""Entries from weak-scaling groups of own studies: trainings at the same time, judged as those of the rounds."""

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from hpcai.core.errors import HpcaiError, ParseError
from hpcai.core.messages import Message, at
from hpcai.listing.content import data_of, numbers_from, optional, shorten
from hpcai.listing.entries import Entry, File, Number, Refusal, Run, Verdict, make_id
from hpcai.listing.entry_parts import failure, refuse_future, remark
from hpcai.listing.own_records import (
    STUDY,
    check_files,
    evidence_of,
    facts_of,
    repeat_with,
    reproducibility_of,
    score_number,
    units_of,
)
from hpcai.listing.sources import refusal_of
from hpcai.metrics.cells import Row, number_of, records_of
from hpcai.metrics.run_tables import read_records
from hpcai.metrics.scores.of_run import score_run
from hpcai.metrics.scores.result_scores import name_datasets
from hpcai.metrics.scores.validity import invalid_reasons, label_result, split_reasons
from hpcai.mlperf_hpc.analysis.own_runs import SUITE, own_round, read_own_groups
from hpcai.mlperf_hpc.analysis.study_names import task_of
from hpcai.mlperf_hpc.analysis.weak_scores import weak_table
from hpcai.records.files import DISCARDED, read_part
from hpcai.records.run import FINISHED, RunRecord
from hpcai.records.weak import GROUP, WeakGroup
from hpcai.rules.table import rules_of

NO_RULE = Message("own_weak.no_rule", "not judged: {suite} has no score of trainings at the same time")
NO_LOGS = Message("own_weak.no_logs", "no instance wrote a log, so there is nothing to judge; measure the group again")
METHOD = "measured: all instances that count, from their logs by the rules of MLPerf HPC, weak scaling"
RATE = "measured: sum of the rates of the instances that count"
AGAINST = "against the rules"
"""Beginning of the remarks on a weak score that name a violation."""
CHECKED = (
    "each record against its own digest, its plan and itself",
    "each log against the digest in its record, and its times against the monotonic clock",
    "the instances shared no core and no accelerator",
    "every instance by the rules of its suite",
)
NUMBERS = ("models_per_min", "time_to_train_all_s")


def read_groups(
    path: Path, name: str, files: Mapping[str, File], today: datetime.date, org: str
) -> tuple[tuple[Entry, ...], tuple[Refusal, ...]]:
    """Return the entries of the weak-scaling groups of a results folder, and those refused with the reason.

    Groups that were set aside are neither: their owner rejected them.

    Parameters
    ----------
    path, name, files
        The submission, its name, and its files by path.
    today
        Runs of a later day are refused.
    org
        Organisation of the entries.
    """
    entries, refused = [], []
    for place in sorted(PurePosixPath(file) for file in files if file.startswith("weak/")):
        if place.name != GROUP or DISCARDED in place.parts:
            continue
        try:
            entries.append(_read_group(path / place, name, files, today, org))
        except (HpcaiError, OSError) as error:
            refused.append(refusal_of(name, error, str(place), path))
    return tuple(entries), tuple(refused)


def _read_group(path: Path, name: str, files: Mapping[str, File], today: datetime.date, org: str) -> Entry:
    group = read_part(WeakGroup, path)
    places = [path.parent / f"i{number}" / "record.json" for number in range(1, group.instances + 1)]
    records = read_records(places)
    for record, place in zip(records, places, strict=True):
        check_files(record, place.parent)
        refuse_future(record.started_utc[:10], today, record.run_id)
    row = _score(path) if records[0].plan.benchmark.suite == SUITE else None
    return _entry(group, records, row, name, files, org)


def _score(path: Path) -> Row:
    """Return the row of ``mlperf_weak`` of a group, from its logs.

    Raises
    ------
    HpcaiError
        If a log was changed, or there is none.
    """
    rows = records_of(weak_table([own_round([], read_own_groups([path]))], {}))
    if not rows:
        raise ParseError(at(path.parent.name, NO_LOGS()))
    return rows[0]


def _entry(
    group: WeakGroup,
    records: Sequence[RunRecord],
    row: Row | None,
    name: str,
    files: Mapping[str, File],
    org: str,
) -> Entry:
    plan, whole = records[0].plan, group.whole_extent
    facts = facts_of(records, str(plan.study), org)
    dataset = name_datasets(records)[plan.benchmark.name]
    reproducibility = reproducibility_of(records, metered=False)
    point = (plan.point.variant, plan.point.engine, f"{group.instances}x{plan.point.scale}")
    source = f"weak/{group.group}/{GROUP}"
    return Entry(
        **facts,
        id=make_id(facts["benchmark"], str(plan.study), org, plan.machine.name, *point, "weak"),
        title=shorten(f"{facts['benchmark_title']}, {group.instances} at once on {plan.machine.name}"),
        dataset=shorten(dataset),
        data=data_of(dataset),
        division=plan.submission.division if row else "",
        scaling="weak",
        variant=shorten(" ".join(word for word in point[:2] if word)),
        scale=point[2],
        nodes=whole.nodes,
        units=units_of(records[0], whole.nodes, whole.ranks),
        quality_metric=task_of(str(row["benchmark"])).quality_metric if row else "",
        rules=f"instances on {row['instance_scale']:g} {row['scale_unit']}"
        if row and row["instance_scale"] > 0
        else "",
        numbers=(*_numbers(group, records, row, source), score_number(reproducibility)),
        runs=tuple(_runs(group, records)),
        settings=(("instances", group.instances), ("instances that count", group.counted)),
        verdict=_verdict(group, records, row),
        evidence=(files[source], *evidence_of(files, records)),
        reproducibility=reproducibility,
        repeat=repeat_with(STUDY, records),
        submission=name,
    )


def _numbers(group: WeakGroup, records: Sequence[RunRecord], row: Row | None, source: str) -> Iterator[Number]:
    counted = [records[instance.number - 1] for instance in group.counted_results()]
    if row:
        yield from numbers_from(row | {"source": source}, NUMBERS, "mlperf_weak", METHOD, len(counted))
    if counted and all(record.outcome in FINISHED for record in counted):
        rates = [score_run(record).train_rate_samples_per_s for record in counted]
        total = {"train_rate_samples_per_s": math.fsum(rates), "source": source}
        yield from numbers_from(total, ("train_rate_samples_per_s",), "scores", RATE, len(counted))


def _runs(group: WeakGroup, records: Sequence[RunRecord]) -> Iterator[Run]:
    for instance, record in zip(group.results, records, strict=True):
        score = score_run(record) if record.outcome in FINISHED else None
        yield Run(
            name=f"i{instance.number}",
            outcome=record.outcome,
            counted=instance.pruned is None,
            time_s=optional(score.run_s) if score else None,
            samples_per_s=optional(score.train_rate_samples_per_s) if score else None,
            epochs=float(len(record.epochs)) or None,
            complies=any(verdict.valid for verdict in record.verdicts),
            reason=shorten(instance.pruned_reason or instance.reason),
        )


def _verdict(group: WeakGroup, records: Sequence[RunRecord], row: Row | None) -> Verdict:
    suite = records[0].plan.benchmark.suite
    title = rules_of(suite).title
    if row is None:
        return Verdict(status="not judged", judge="HPC-AI Bench", label=NO_RULE(suite=title), checked=CHECKED)
    remarks = split_reasons([row["reason"]])
    scored = number_of(row, "models_per_min") > 0
    counted = [records[instance.number - 1] for instance in group.counted_results()]
    failed = [reason for record in counted for reason in invalid_reasons(record)]
    failed += [words for words in remarks if not scored or words.startswith(AGAINST)]
    failed = list(dict.fromkeys(failed))
    reasons = [*map(failure, failed), *(remark(words) for words in remarks if words not in failed)]
    return Verdict(
        status="not valid" if failed else "valid",
        judge="HPC-AI Bench",
        rule_set=title,
        label=shorten(label_result(suite, failed)),
        checked=CHECKED,
        reasons=tuple(reasons),
    )
