"""What the page of one list shows, and the data that its table sorts and filters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from hpcai.core.text import say_name, say_whole
from hpcai.listing.entries import Edition, Entry, Place, Ranking, make_id
from hpcai.listing.listed import Found, Listed
from hpcai.listing.numbers import Format
from hpcai.listing.units import name_device, say_unit, say_units

ROWS = 50
"""Rows in the page itself: what a reader without scripts sees, and everyone before the data are there."""
FIRST_PART, LATER_PARTS = 500, 5000
"""Rows in the first part of a list's data, which the page waits for, and in each of those that follow."""
SHOWN = ("value", "low", "high")
"""Columns of numbers that every list has."""
KINDS = {
    "time_to_train": "Time to train",
    "throughput_per_unit": "Throughput per {unit}",
    "vflops": "VFLOPS",
    "vflops_per_watt": "VFLOPS per watt",
    "weak_throughput": "Throughput of weak scaling",
}
MEANINGS = {
    "time_to_train": "Time from the start of training until the target quality is reached. Shorter is better.",
    "throughput_per_unit": "Training samples per second, divided by the number of accelerators. Of a machine without "
    "them it is divided by processors in published rounds, by nodes in own runs, and by processes in declared results. "
    "Small runs are favoured: time to train has its own list.",
    "vflops": "Valid FLOPS of HPC AI500: the rate of useful operations, reduced if the quality target is missed.",
    "vflops_per_watt": "Valid FLOPS over mean power.",
    "weak_throughput": "Models trained per minute by many instances at once, on the machine.",
}
BRACKETS = " In brackets: 95 % interval."
NO_RULES = ", and not judged: no rule set exists for them"
SUBMIT_COMMAND = 'hpcai list submit results --output my_machine --org "My laboratory"'
BASES = {
    "measured": "measured: own runs whose raw files were checked here",
    "published": "published: logs of others, read here",
    "declared": "declared: numbers without the files behind them",
}
APART = (
    "Closed and open divisions, measured, published and declared results, and official and other data have lists of "
    "their own."
)


def list_href(ranking: Ranking) -> str:
    """Return the page of a list."""
    return f"list/{ranking.id}.html"


@cache
def organisation_href(name: str) -> str:
    """Return the page of an organisation."""
    return f"organisation/{make_id(name)}.html"


def name_kind(kind: str, entries: Iterable[Entry]) -> str:
    """Return the readable name of a kind of list, with the unit by which its results are counted."""
    return KINDS[kind].format(unit=say_unit(entries)) if "{" in KINDS[kind] else KINDS[kind]


def title_of(ranking: Ranking) -> str:
    """Return the readable name of a list's benchmark."""
    return ranking.benchmark_title or ranking.benchmark


def say_rules(ranking: Ranking) -> str:
    """Return what a list holds besides its benchmark and kind."""
    target = "" if ranking.quality_target is None else f"target {ranking.quality_target:g}"
    data = "other data" if ranking.data == "other" else ""
    rules = "" if ranking.judged else "not judged"
    return ", ".join(part for part in (ranking.division, ranking.basis, data, target, ranking.rules, rules) if part)


def say_apart(edition: Edition, ranking: Ranking) -> str:
    """Return division and basis of a list, and of its other rules what other lists of its benchmark do not share."""
    alike = [one for one in edition.rankings if one.benchmark == ranking.benchmark]
    parts = [ranking.division, ranking.basis]
    if len({one.data for one in alike}) > 1:
        parts.append(f"{ranking.data} data")
    if len({one.quality_target for one in alike}) > 1 and ranking.quality_target is not None:
        parts.append(f"target {ranking.quality_target:g}")
    if len({one.rules for one in alike}) > 1:
        parts.append(ranking.rules)
    parts.append("" if ranking.judged else "not judged")
    return ", ".join(part for part in parts if part)


def make_list(listed: Listed) -> dict[str, Any]:
    """Return the template data of one list."""
    edition, ranking, form = listed.edition, listed.ranking, listed.form
    kind, unit = name_kind(ranking.kind, listed.entries), say_unit(listed.entries)
    shown = zip(ranking.places[:ROWS], listed.entries, listed.found, strict=False)
    rows = [_make_row(edition, place, entry, found, form) for place, entry, found in shown]
    return {
        "title": f"{kind}: {title_of(ranking)}, {say_apart(edition, ranking)}",
        "question": say_rules(ranking),
        "others": _other_lists(listed),
        "rows": rows,
        "status": f"{say_whole(len(ranking.places))} results",
        "order": f"Best first. {kind} [{form.unit}].{BRACKETS if any(map(_has_interval, listed.found)) else ''}",
        "sorted": "ascending" if ranking.better == "lower" else "descending",
        "heading": f"{kind} [{form.unit}]",
        "device": name_device(unit).capitalize(),
        "units": say_units(unit).capitalize(),
        "left_out": say_whole(len(ranking.places) - ROWS) if len(ranking.places) > ROWS else "",
        "definition": MEANINGS[ranking.kind],
        "separate": APART,
        "apart": f"All results here are {BASES[ranking.basis]}{'' if ranking.judged else NO_RULES}.",
        "needed": say_needed(edition, ranking),
        "command": SUBMIT_COMMAND,
        "data": f"list/{ranking.id}.js",
    }


def say_data(dataset: str, kind: str) -> str:
    """Return a dataset, and whether it is the official one unless its name says so."""
    return dataset if kind in dataset else f"{dataset} ({kind} data)".strip()


def _say_trained(edition: Edition, ranking: Ranking) -> str:
    """Return what was trained to what quality on what data."""
    metric = next((edition.by_id[place.entry].quality_metric for place in ranking.places), "")
    target = "" if ranking.quality_target is None else f" to the target {say_name(metric)} {ranking.quality_target:g}"
    own = ranking.data == "official" and ranking.dataset.startswith(ranking.benchmark)
    data = "its official data" if own else say_data(ranking.dataset, ranking.data)
    return f"{title_of(ranking)} trained{target} on {data}"


def say_needed(edition: Edition, ranking: Ranking) -> str:
    """Return what a submission must have to be in a list."""
    runs = max((edition.by_id[place.entry].runs_by_rule or 0 for place in ranking.places), default=0)
    logs = f"the logs of all runs, {runs} at least" if runs else "the logs of all runs"
    division = f", {ranking.division} division" if ranking.division else ""
    evidence = "the numbers and the document that holds them" if ranking.basis == "declared" else logs
    return f"{_say_trained(edition, ranking)}{division}, with {evidence}."


def make_list_data(listed: Listed) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the data of one list in parts: first what makes the page answer, then the rest; each with its path."""
    ranking = listed.ranking
    ends = [*range(FIRST_PART, len(ranking.places), LATER_PARTS), len(ranking.places)]
    names = [f"{ranking.id}.js", *(f"{ranking.id}.{number}.js" for number in range(1, len(ends)))]
    about = {
        "better": ranking.better,
        "total": len(ranking.places),
        "parts": names[1:],
        "first": {
            "format": {"factor": listed.form.factor}, "results": "../result/", "compare": "../compare.html",
            "units": say_units(say_unit(listed.entries)),
        },
    }  # fmt: skip
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        part = _make_part(listed, start, end)
        yield f"list/{name}", {**part, **about} if start == 0 else part


def _make_part(listed: Listed, start: int, end: int) -> dict[str, Any]:
    """Return columns of some places; texts are numbers of their word."""
    edition, places = listed.edition, listed.ranking.places[start:end]
    entries, found = listed.entries[start:end], listed.found[start:end]
    words: dict[str, list[Any]] = {}
    columns: dict[str, list[Any]] = {
        "id": [entry.id for entry in entries],
        "place": [place.place for place in places],
        **_number_columns(found),
        "scale": [entry.units for entry in entries],
        "score": [_score(entry) for entry in entries],
    }
    for name, (fields, make) in WORDS.items():
        columns[name], words[name] = _number_words(edition, entries, attrgetter(*fields), make)
    return {"columns": columns, "words": words}


def _make_row(edition: Edition, place: Place, entry: Entry, found: Found | None, form: Format) -> dict[str, Any]:
    score = _score(entry)
    return {
        "place": "not valid" if place.place is None else say_whole(place.place),
        "href": f"result/{entry.id}.html",
        "machine": _machine(edition, entry),
        "setting": _say_setting(entry),
        "accelerator": _accelerator(edition, entry),
        "organisation": _organisation(edition, entry),
        "round": entry.round,
        "year": entry.year if entry.year is not None else "not known",
        "scale": say_whole(entry.units) if entry.units is not None else "not known",
        "words": found.say(form) if found else "–",
        "interval": found.say_interval(form) if found else "",
        "score": "–" if score is None else score,
    }


def _machine(edition: Edition, entry: Entry) -> dict[str, str]:
    machine = edition.machines_by_id.get(entry.machine)
    if machine is None:
        return {"text": entry.system, "href": ""}
    return {"text": machine.name, "href": f"machine/{machine.id}.html"}


def _say_setting(entry: Entry) -> str:
    """Return what tells results of one machine apart: variant and scale of its study; blank if it has none."""
    return ", ".join(word for word in (entry.variant, entry.scale) if word)


def _setting(_: Edition, entry: Entry) -> dict[str, str] | None:
    text = _say_setting(entry)
    return {"text": text, "href": ""} if text else None


def _organisation(_: Edition, entry: Entry) -> dict[str, str] | None:
    return {"text": entry.organisation, "href": organisation_href(entry.organisation)} if entry.organisation else None


def _accelerator(_: Edition, entry: Entry) -> dict[str, str] | None:
    text = entry.family or entry.accelerator
    return {"text": text, "href": ""} if text else None


def _round(_: Edition, entry: Entry) -> dict[str, str] | None:
    return {"text": entry.round, "href": ""} if entry.round else None


def _year(_: Edition, entry: Entry) -> dict[str, str] | None:
    return None if entry.year is None else {"text": str(entry.year), "href": ""}


def _score(entry: Entry) -> int | None:
    return None if entry.reproducibility is None else round(entry.reproducibility.score)


def _number_columns(found: Sequence[Found | None]) -> dict[str, list[float | None]]:
    """Return the columns of values and bounds; the smallest and largest run only where they are shown."""
    names = [name for name in Found._fields if name in SHOWN or any(one and _only_runs(one) for one in found)]
    return {name: [_rounded(one and getattr(one, name)) for one in found] for name in names}


def _has_interval(found: Found | None) -> bool:
    return found is not None and found.low is not None


def _only_runs(found: Found) -> bool:
    return found.low is None and found.least is not None


def _rounded(value: float | None) -> float | None:
    """Return six digits: more than a list shows, and less than twice the size."""
    return None if value is None else float(f"{value:.6g}")


WORDS: Mapping[str, tuple[tuple[str, ...], Callable[[Edition, Entry], dict[str, str] | None]]] = {
    "machine": (("machine", "system"), _machine),
    "setting": (("variant", "scale"), _setting),
    "organisation": (("organisation",), _organisation),
    "accelerator": (("family", "accelerator"), _accelerator),
    "round": (("round",), _round),
    "year": (("year",), _year),
}
"""Columns of words: the fields of an entry that a cell depends on, and what makes it."""


def _number_words(
    edition: Edition,
    entries: Iterable[Entry],
    key_of: Callable[[Entry], Any],
    make: Callable[[Edition, Entry], dict[str, str] | None],
) -> tuple[list[int | None], list[Any]]:
    """Return the number of each entry's word, and the words; each is made once."""
    known: dict[Any, int | None] = {}
    numbers: dict[tuple[str, str], int] = {}
    column = []
    for entry in entries:
        key = key_of(entry)
        if key not in known:
            cell = make(edition, entry)
            known[key] = None if cell is None else numbers.setdefault((cell["text"], cell["href"]), len(numbers))
        column.append(known[key])
    return column, [{"text": text, "href": f"../{href}"} if href else text for text, href in numbers]


def _other_lists(listed: Listed) -> list[dict[str, Any]]:
    """Return the lists beside this one: of other benchmarks, of other measures, and under other rules."""
    edition, ranking = listed.edition, listed.ranking
    kinds = [(kind, name_kind(kind, listed.entries)) for kind in KINDS]
    titles = {other.benchmark: title_of(other) for other in edition.rankings}
    benchmarks = sorted(titles.items(), key=lambda item: item[1].casefold())
    return [
        {"label": "Benchmark", "links": [_nearest(edition, ranking, "benchmark", *one) for one in benchmarks]},
        {"label": "Measure", "links": [_nearest(edition, ranking, "kind", *one) for one in kinds]},
        {"label": "Rules", "links": list(_siblings(edition, ranking))},
    ]


def _siblings(edition: Edition, ranking: Ranking) -> Iterable[dict[str, Any]]:
    for other in edition.rankings:
        if (other.kind, other.benchmark) == (ranking.kind, ranking.benchmark):
            here = other.id == ranking.id
            yield {"words": say_apart(edition, other), "href": list_href(other), "here": here}


def _nearest(edition: Edition, ranking: Ranking, field: str, wanted: str, words: str) -> dict[str, Any]:
    """Return the link to the list that differs in one field, and as little as possible otherwise."""
    if getattr(ranking, field) == wanted:
        return {"words": words, "href": list_href(ranking), "here": True}
    fields = [name for name in ("kind", "benchmark") if name != field]
    alike = [one for one in edition.rankings if getattr(one, field) == wanted]
    alike = [one for one in alike if all(getattr(one, name) == getattr(ranking, name) for name in fields)]
    if not alike:
        return {"words": words, "href": "", "here": False}
    close = ("basis", "division", "data")
    best = max(alike, key=lambda one: sum(getattr(one, name) == getattr(ranking, name) for name in close))
    return {"words": words, "href": list_href(best), "here": False}
