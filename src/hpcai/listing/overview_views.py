"""What the pages over many results show: front page, records, scaling, predictions, refusals, editions, directories."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from hpcai.core.text import say_count, say_number, say_whole
from hpcai.listing.entries import NOT_VALID, Basis, Difference, Edition, Entry, cite_edition
from hpcai.listing.entry_views import make_cell, make_table, say_edition_bibtex
from hpcai.listing.listed import Listed, Record
from hpcai.listing.numbers import choose_format, name_quantity
from hpcai.listing.ranking_views import (
    KINDS,
    list_href,
    name_kind,
    organisation_href,
    say_apart,
    say_needed,
    title_of,
)
from hpcai.listing.units import join_units, name_device, say_unit, say_units, say_used_of

NOT_JUDGED = (
    "Not judged: there is no rule set for this round, or only numbers are declared. What was checked is on the page of "
    "each result."
)
ANSWERED = "throughput_per_unit"
"""The kind of list that answers which machine is fastest per accelerator."""


def make_index(edition: Edition, lists: Sequence[Listed], charts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the template data of the front page."""
    ordered = sorted((one for one in lists if one.ranking.kind == ANSWERED), key=_official_first)
    led = [(one, one.leader) for one in ordered if one.leader]
    answers = [_answer(one, leader, lists) for one, leader in led]
    example = next((one.ranking for one in (*(one for one, _ in led), *lists)), None)
    unit = say_unit(edition.entries)
    machines, results = len(edition.machines), len(edition.entries)
    count = f"{say_count(results, 'result')} of {say_count(machines, 'machine')}"
    return {
        "headline": edition.title,
        "about": f"{count}, each with its evidence, its verdict and its uncertainty.",
        "answers": answers,
        "unit": unit,
        "units": say_units(unit),
        "not_judged": NOT_JUDGED if any(not one.judged for one in edition.rankings) else "",
        "needed": say_needed(edition, example) if example else "Any result with its logs.",
        "cite_short": cite_edition(edition),
        "refused_words": _say_refused(len(edition.refused)),
        "lists": _index_lists(lists),
        "kinds": [name_kind(kind, edition.entries) for kind in KINDS],
        "charts": charts,
        "citation": cite_edition(edition),
        "bibtex": say_edition_bibtex(edition),
    }


def _say_refused(number: int) -> str:
    if not number:
        return "Nothing in this edition."
    return f"{say_whole(number)} {'submission or result' if number == 1 else 'submissions or results'} failed a check."


def _official_first(listed: Listed) -> tuple[Any, ...]:
    ranking = listed.ranking
    bases = get_args(Basis)
    return ranking.benchmark.casefold(), ranking.data != "official", bases.index(ranking.basis), ranking.division


def _answer(listed: Listed, leader: Record, lists: Sequence[Listed]) -> dict[str, Any]:
    """Return who leads a list, and how its record changed since its first round."""
    edition, form, entry = listed.edition, listed.form, leader.entry
    machine = edition.machines_by_id.get(entry.machine)
    return {
        "benchmark": title_of(listed.ranking),
        "rules": say_apart(edition, listed.ranking),
        "list_href": list_href(listed.ranking),
        "machine": {"text": machine.name, "href": f"machine/{machine.id}.html"} if machine else None,
        "organisation": entry.organisation,
        "scale": say_used_of(entry),
        "accelerator": entry.family or entry.accelerator,
        "round": entry.round,
        "href": f"result/{entry.id}.html",
        "value": {"words": leader.found.say(form), "unit": form.unit, "interval": leader.found.say_interval(form)},
        **_change(listed, lists),
    }


def _change(listed: Listed, lists: Sequence[Listed]) -> dict[str, str]:
    """Return how a list's record changed since its first round; of one round, against earlier benchmark editions."""
    records = listed.records
    if not records:
        return {"change": "no result with a year", "first": ""}
    first, last = records[0], records[-1]
    if len(records) > 1:
        return {"change": _say_ratio(listed, first, last), "first": first.entry.title}
    before = _earlier_edition(listed, lists)
    if before is None:
        rounds = {entry.round for entry in listed.entries}
        only = f"{last.entry.round} is the only round in this list"
        return {"change": f"no better result since {last.entry.round}" if len(rounds) > 1 else only, "first": ""}
    other = listed.edition.benchmark_titles[before.entry.benchmark]
    note = f"{before.entry.title}; {other} is another edition of the benchmark"
    return {"change": _say_ratio(listed, before, last), "first": note}


def _say_ratio(listed: Listed, before: Record, now: Record) -> str:
    return f"×{say_number(listed.ratio(before, now))} since {before.entry.round}"


def _earlier_edition(listed: Listed, lists: Sequence[Listed]) -> Record | None:
    """Return the best result of the first earlier round of the same workload, kind, division, basis and data."""
    ranking, now = listed.ranking, listed.records[-1].entry
    fields = ("kind", "division", "basis", "data")
    alike = [one for one in lists if all(getattr(one.ranking, name) == getattr(ranking, name) for name in fields)]
    found = [record for one in alike if one.ranking.id != ranking.id for record in one.records]
    found = [one for one in found if one.entry.workload == now.workload and (one.entry.year or 0) < (now.year or 0)]
    oldest = min((one.entry.year or 0 for one in found), default=0)
    best: Record | None = None
    for record in found:
        if record.entry.year == oldest and (best is None or listed.is_better(record, best)):
            best = record
    return best


def _index_lists(lists: Sequence[Listed]) -> list[dict[str, Any]]:
    """Return one row per benchmark and rules, with the lists of each kind."""
    rows: dict[tuple[str, str], dict[str, list[Listed]]] = {}
    for one in lists:
        key = (title_of(one.ranking), say_apart(one.edition, one.ranking))
        rows.setdefault(key, {}).setdefault(one.ranking.kind, []).append(one)
    ordered = sorted(rows.items(), key=lambda item: (item[0][0].casefold(), item[0][1]))
    return [
        {
            "benchmark": benchmark,
            "rules": rules,
            "cells": [[_list_link(one) for one in kinds.get(kind, ())] for kind in KINDS],
        }
        for (benchmark, rules), kinds in ordered
    ]


def _list_link(listed: Listed) -> dict[str, str]:
    leader, form = listed.leader, listed.form
    return {
        "href": list_href(listed.ranking),
        "words": say_count(len(listed.entries), "result"),
        "best": f"{leader.found.say(form)} {form.unit}" if leader else "none valid",
    }


def record_rows(lists: Sequence[Listed], benchmark: str, kind: str) -> tuple[list[dict[str, Any]], str]:
    """Return the records of all lists of one kind and benchmark for a chart, and their unit."""
    chosen = [one for one in lists if (one.ranking.kind, one.ranking.benchmark) == (kind, benchmark)]
    found = [(one, record) for one in chosen for record in one.records]
    if not found:
        return [], ""
    ranking = chosen[0].ranking
    form = choose_format(ranking.quantity, ranking.unit, [record.value for _, record in found])
    rows = [
        {
            "year": record.entry.year,
            "value": record.value / form.factor,
            "rules": say_apart(one.edition, one.ranking),
            "said": f"{record.found.say(form)} {form.unit}, {record.found.say_interval(form)}",
            **_tell(record.entry),
        }
        for one, record in found
        if record.value > 0
    ]
    return rows, form.unit


def _tell(entry: Entry) -> dict[str, str]:
    """Return what the mark of a result tells in every chart."""
    return {"title": entry.title, "round": entry.round, "href": f"result/{entry.id}.html"}


def record_table(lists: Sequence[Listed], benchmark: str, title: str) -> dict[str, Any]:
    """Return the records of all lists of one benchmark as a table."""
    chosen = [one for one in lists if one.ranking.benchmark == benchmark]
    kinds = [name_kind(one.ranking.kind, one.entries) for one in chosen]
    rows = [
        [
            make_cell(f"{kind}, {say_apart(one.edition, one.ranking)}", list_href(one.ranking)),
            make_cell(record.entry.year),
            make_cell(record.entry.round),
            make_cell(f"{record.found.say(one.form)} {one.form.unit}", f"result/{record.entry.id}.html"),
            make_cell(record.found.say_interval(one.form)),
            make_cell(record.entry.title),
        ]
        for kind, one in zip(kinds, chosen, strict=True)
        for record in one.records
    ]
    headings = ["List", "Year", "Round", "Record", "Interval", "Result"]
    return make_table(f"Records of {title}", headings, rows, (1, 3, 4))


def scaling_rows(edition: Edition, benchmark: str) -> list[dict[str, Any]]:
    """Return every result of a benchmark with a throughput and a number of units [samples/s per unit]."""
    return [
        {
            "id": entry.id,
            "scale": entry.units,
            "unit": entry.unit,
            "value": entry.per_unit,
            "accelerator": entry.family or entry.accelerator or "not stated",
            "rules": f"{entry.division}, {entry.basis}".strip(", "),
            "verdict": entry.verdict.status,
        }
        for entry in edition.entries
        if entry.benchmark == benchmark and entry.per_unit and entry.scaling == "strong"
    ]


def tell_scaling(edition: Edition, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a chart of scaling with what each mark tells."""
    return [
        {
            **{key: value for key, value in row.items() if key not in ("id", "unit")},
            "said": f"{say_number(row['value'])} samples/s",
            **_tell(edition.by_id[row["id"]]),
        }
        for row in rows
    ]


def scaling_table(title: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the best valid result of each accelerator and scale, and how many there are."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["accelerator"], row["rules"], row["scale"]), []).append(row)
    shown = []
    for (accelerator, rules, scale), found in sorted(groups.items()):
        values = [row["value"] for row in found if row["verdict"] != NOT_VALID]
        cells = (say_whole(scale), say_whole(len(found)), say_whole(len(found) - len(values)))
        best = say_number(max(values)) if values else "none valid"
        shown.append([make_cell(cell) for cell in (accelerator, rules, *cells, best)])
    unit = join_units(row["unit"] for row in rows)
    device, units = name_device(unit).capitalize(), say_units(unit).capitalize()
    headings = [device, "Rules", units, "Results", "Not valid", f"Best [samples/s per {unit}]"]
    return make_table(f"Scaling of {title}", headings, shown, (2, 3, 4, 5))


def predicted_quantities(edition: Edition) -> list[str]:
    """Return the quantities with a prediction that a later result can be held against, by name."""
    names = {one.number.quantity for one in edition.predictions}
    return sorted(name for name in names if prediction_rows(edition, name))


def prediction_rows(edition: Edition, quantity: str) -> list[dict[str, Any]]:
    """Return predictions of one quantity with the result, in the unit of the number."""
    rows = []
    for prediction in edition.predictions:
        entry = edition.by_id.get(prediction.entry)
        measured = prediction.measured
        if entry is None or prediction.number.quantity != quantity:
            continue
        form = choose_format(quantity, measured.unit, [prediction.number.value, measured.value])
        rows.append(
            {
                **_tell(entry),
                "predicted": prediction.number.value,
                "measured": measured.value,
                "low": prediction.number.low,
                "high": prediction.number.high,
                "benchmark": edition.benchmark_titles[entry.benchmark],
                "made_from": prediction.made_from,
                "unit": measured.unit,
                "foretold": f"{form.say(prediction.number.value)} {form.unit}",
                "said": f"{form.say(measured.value)} {form.unit}",
            }
        )
    return rows


def scale_predictions(quantity: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return predictions in the unit in which a chart shows them, and this unit."""
    form = choose_format(quantity, rows[0]["unit"], [row[name] for row in rows for name in ("predicted", "measured")])
    scaled = [{**row, **{name: row[name] / form.factor for name in ("predicted", "measured")}} for row in rows]
    return scaled, form.unit


def prediction_table(quantity: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return predictions beside results, with the error and whether the interval held."""
    shown = []
    for row in rows:
        form = choose_format(quantity, row["unit"], [row["predicted"], row["measured"]])
        known = row["low"] is not None and row["high"] is not None
        held = ("yes" if row["low"] <= row["measured"] <= row["high"] else "no") if known else "no interval"
        error = 100 * (row["predicted"] / row["measured"] - 1) if row["measured"] else None
        shown.append(
            [
                make_cell(row["title"], row["href"]),
                make_cell(row["foretold"]),
                make_cell(form.say_interval(row["low"], row["high"])),
                make_cell(row["said"]),
                make_cell("" if error is None else f"{error:+.1f} %".replace("-", "−")),
                make_cell(held),
                make_cell(row["made_from"]),
            ]
        )
    headings = ["Result", "Predicted", "Interval", "Measured", "Error", "In the interval", "Predicted from"]
    return make_table(f"Predictions of {name_quantity(quantity)}", headings, shown, (1, 2, 3, 4))


def refused_table(edition: Edition) -> dict[str, Any]:
    """Return what was refused, with every reason."""
    rows = [
        [
            make_cell(one.submission),
            make_cell(one.place or "the whole submission"),
            make_cell(reason.text),
            make_cell(reason.place or "–"),
            make_cell(reason.code),
        ]
        for one in edition.refused
        for reason in one.reasons
    ]
    return make_table("Refused submissions and results", ["Submission", "Refused", "Reason", "Place", "Code"], rows)


def difference_tables(edition: Edition, difference: Difference) -> list[dict[str, Any]]:
    """Return what is new, gone and changed between two editions; what is gone has no page any more."""

    def link(name: str) -> Mapping[str, str]:
        entry = edition.by_id.get(name)
        return make_cell(entry.title, f"result/{name}.html") if entry else make_cell(name)

    def rows(names: Iterable[str]) -> list[list[Mapping[str, str]]]:
        return [[link(name), make_cell(name)] for name in names]

    changed = [
        [link(one.entry), make_cell(one.field), make_cell(one.before), make_cell(one.after)]
        for one in difference.changed
    ]
    return [
        make_table("New results", ["Result", "Identifier"], rows(difference.added)),
        make_table("Results that are gone", ["Result", "Identifier"], rows(difference.removed)),
        make_table("Changed results", ["Result", "Field", "Before", "After"], changed),
    ]


def machine_table(edition: Edition, results: Mapping[str, Sequence[Entry]]) -> dict[str, Any]:
    """Return all machines."""
    rows = [
        [
            make_cell(one.name or one.id, f"machine/{one.id}.html"),
            make_cell(one.organisation, organisation_href(one.organisation)),
            make_cell(one.family or one.accelerator),
            make_cell(say_whole(len(results.get(one.id, ())))),
        ]
        for one in sorted(edition.machines, key=lambda one: (one.name.casefold(), one.id))
    ]
    device = name_device(say_unit(edition.entries)).capitalize()
    return make_table("Machines", ["Machine", "Organisation", device, "Results"], rows, (3,))


def organisation_table(results: Mapping[str, Sequence[Entry]]) -> dict[str, Any]:
    """Return all organisations."""
    rows = [
        [
            make_cell(name, organisation_href(name)),
            make_cell(say_whole(len({one.machine for one in found}))),
            make_cell(say_whole(len(found))),
        ]
        for name, found in sorted(results.items(), key=lambda item: item[0].casefold())
    ]
    return make_table("Organisations", ["Organisation", "Machines", "Results"], rows, (1, 2))


def needed_table(edition: Edition) -> dict[str, Any]:
    """Return what a submission needs, and the lists in which it is compared."""
    groups: dict[str, set[str]] = {}
    words = {kind: name_kind(kind, edition.entries) for kind in KINDS}
    for ranking in edition.rankings:
        groups.setdefault(say_needed(edition, ranking), set()).add(words[ranking.kind])
    rows = [[make_cell(text), make_cell(", ".join(sorted(kinds)))] for text, kinds in sorted(groups.items())]
    return make_table("What a result needs", ["To submit", "Compared by"], rows)
