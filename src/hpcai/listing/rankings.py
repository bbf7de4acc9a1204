"""Join submissions into an edition: each entry once, machines merged, and comparable results ranked."""

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcai.catalogue.tables import definitions
from hpcai.core.messages import Message
from hpcai.listing.content import Content
from hpcai.listing.entries import (
    Edition,
    Entry,
    Machine,
    Place,
    Ranking,
    RankingKind,
    Reason,
    Refusal,
    make_id,
    sort_entries,
)
from hpcai.listing.units import say_unit

TWICE = Message("rankings.twice", "the entry {entry} is already in the submission {first}")
PER_UNIT = "train_rate_per_unit_samples_per_s"


@dataclass(frozen=True)
class Measure:
    """What a kind of ranking orders by."""

    kind: RankingKind
    quantity: str
    better: Literal["lower", "higher"]
    title: str
    table: str = "scores"
    suites: tuple[str, ...] = ("hpc_ai500", "mlperf_hpc")
    scaling: str = "strong"


MEASURES = (
    Measure("time_to_train", "time_to_train_s", "lower", "Time to train", suites=("mlperf_hpc",)),
    Measure("vflops", "vflops_flop_per_s", "higher", "VFLOPS", suites=("hpc_ai500",)),
    Measure("vflops_per_watt", "vflops_flop_per_j", "higher", "VFLOPS per watt", suites=("hpc_ai500",)),
    Measure("throughput_per_unit", PER_UNIT, "higher", "Throughput per {unit}", "mlperf_results"),
    Measure("weak_throughput", "models_per_min", "higher", "Weak scaling", "mlperf_weak", scaling="weak"),
)


@dataclass(frozen=True)
class Frame:
    """Name, title, address and day of an edition, and the frozen ones of its site."""

    name: str
    title: str
    url: str
    made: datetime.date
    earlier: tuple[str, ...] = ()


def join_edition(
    contents: Mapping[str, Content],
    refused: Sequence[Refusal],
    frame: Frame,
    added: Mapping[str, datetime.date],
) -> Edition:
    """Return the edition of all submissions.

    Parameters
    ----------
    contents
        By name of the submission; of entries with one identifier, the first by name stays, the others are refused.
    refused
        What was refused before.
    frame
        What the edition is called.
    added
        Day on which each known entry entered the list; others enter on the day of the edition, or of their submission.
    """
    entries: dict[str, Entry] = {}
    lost = list(refused)
    for submission, content in sorted(contents.items()):
        lost += content.refused
        for entry in content.entries:
            if entry.id in entries:
                lost.append(_twice(entry, submission, entries[entry.id].submission))
                continue
            day = added.get(entry.id) or min(content.submitted or frame.made, frame.made)
            entries[entry.id] = entry.model_copy(update={"added": day, "submission": submission})
    lost += [_not_valid(entry) for entry in entries.values() if entry.verdict.status == "not valid"]
    chosen = sort_entries(entries.values())
    known = (machine for _, content in sorted(contents.items()) for machine in content.machines)
    used = {entry.machine for entry in chosen}
    predictions = (one for _, content in sorted(contents.items()) for one in content.predictions)
    return Edition(
        name=frame.name,
        title=frame.title,
        url=frame.url,
        made=frame.made,
        entries=chosen,
        machines=tuple(machine for machine in merge_machines(known) if machine.id in used),
        refused=tuple(sorted(lost, key=lambda one: (one.submission, one.place, one.id))),
        rankings=rank_entries(chosen),
        predictions=tuple(one for one in predictions if one.entry in entries),
        earlier=frame.earlier,
    )


def _twice(entry: Entry, submission: str, first: str) -> Refusal:
    words = TWICE(entry=entry.id, first=first)
    reason = Reason(code=words.code, text=str(words), place=entry.id)
    return Refusal(
        id=make_id("refused", submission, entry.id), submission=submission, place=entry.id, reasons=(reason,)
    )


def _not_valid(entry: Entry) -> Refusal:
    failures = tuple(one for one in entry.verdict.reasons if one.severity == "failure")
    reasons = failures or (Reason(code="rankings.not_valid", text=entry.verdict.label),)
    return Refusal(
        id=make_id("refused", entry.submission, entry.id), submission=entry.submission, place=entry.id, reasons=reasons
    )


def merge_machines(machines: Iterable[Machine]) -> list[Machine]:
    """Return each machine once, with the facts and numbers of all its descriptions; the first word on a fact counts."""
    merged: dict[str, Machine] = {}
    for machine in machines:
        known = merged.setdefault(machine.id, machine)
        if known is not machine:
            facts = {**dict(machine.facts), **dict(known.facts)}
            numbers = tuple(dict.fromkeys((*known.numbers, *machine.numbers)))
            titles = {number.title for number in numbers}
            missing = {
                one.title: one for one in (*machine.not_measured, *known.not_measured) if one.title not in titles
            }
            changes = {"facts": tuple(sorted(facts.items())), "numbers": numbers}
            merged[machine.id] = known.model_copy(update={**changes, "not_measured": tuple(missing.values())})
    return sorted(merged.values(), key=lambda machine: machine.id)


def rank_entries(entries: Sequence[Entry]) -> tuple[Ranking, ...]:
    """Return the rankings of all comparable entries.

    Results of one ranking share benchmark, dataset, official or other data, target, division, further rules and basis:
    measured, published and declared results are never mixed. Equal values share a place; entries that are not valid
    follow without one, as do runs that were submitted before.
    """
    groups: dict[tuple[object, ...], list[tuple[float, Entry]]] = {}
    for entry in entries:
        like = _like(entry)
        for number, measure in enumerate(MEASURES):
            if entry.suite in measure.suites and entry.scaling == measure.scaling:
                value = value_of(entry, measure.quantity)
                if value is not None:
                    groups.setdefault((number, *like), []).append((value, entry))
    rankings = [_ranking(MEASURES[int(str(key[0]))], members) for key, members in groups.items()]
    return tuple(sorted(rankings, key=lambda ranking: (ranking.benchmark, ranking.kind, ranking.id)))


def value_of(entry: Entry, quantity: str) -> float | None:
    """Return what a ranking orders an entry by; None if the entry has none."""
    if quantity == PER_UNIT:
        return entry.per_unit
    number = entry.number(quantity)
    return number.value if number else None


def _like(entry: Entry) -> tuple[object, ...]:
    return (
        entry.benchmark, entry.dataset, entry.data, entry.division, entry.basis, entry.quality_target, entry.rules,
        entry.verdict.status == "not judged",
    )  # fmt: skip


def _ranking(measure: Measure, members: list[tuple[float, Entry]]) -> Ranking:
    sign = 1 if measure.better == "lower" else -1
    ordered = sorted(members, key=lambda one: (one[1].verdict.status == "not valid", sign * one[0], one[1].id))
    first = ordered[0][1]
    judged = first.verdict.status != "not judged"
    words = (first.benchmark, first.dataset, first.division, first.basis, first.rules)
    target = "" if first.quality_target is None else f"{first.quality_target:g}"
    kind = measure.title.format(unit=say_unit(entry for _, entry in members))
    return Ranking(
        id=make_id(measure.kind, *words, first.data, target, "judged" if judged else ""),
        title=", ".join(word for word in (kind, first.benchmark_title or first.benchmark, *words[1:]) if word),
        kind=measure.kind,
        quantity=measure.quantity,
        unit=definitions().find(measure.table, measure.quantity)[1].unit,
        better=measure.better,
        benchmark=first.benchmark,
        benchmark_title=first.benchmark_title,
        dataset=first.dataset,
        data=first.data,
        division=first.division,
        basis=first.basis,
        quality_target=first.quality_target,
        rules=first.rules,
        judged=judged,
        places=tuple(_places(ordered)),
    )


def _places(ordered: Iterable[tuple[float, Entry]]) -> Iterator[Place]:
    """Yield the places of ordered entries: 1, 2, 2, 4; none for what is not valid, or the same runs again."""
    seen: set[str] = set()
    ranked, place, last = 0, 0, math.nan
    for value, entry in ordered:
        if entry.verdict.status == "not valid" or (entry.runs_sha256 and entry.runs_sha256 in seen):
            yield Place(entry=entry.id, place=None)
            continue
        seen.add(entry.runs_sha256)
        ranked += 1
        place, last = (place if value == last else ranked), value
        yield Place(entry=entry.id, place=place)
