"""What the pages of one result, one machine and one organisation show, and what the comparison of results needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from hpcai.core.text import say_count, say_name, say_whole
from hpcai.listing.entries import (
    Edition,
    Entry,
    Machine,
    Number,
    Value,
    Verdict,
    cite_entry,
)
from hpcai.listing.numbers import LOWER_IS_BETTER, choose_format, repeats_of, say_amount
from hpcai.listing.ranking_views import list_href, organisation_href, say_data
from hpcai.listing.units import name_device, say_units, say_used

MOST_RESULTS = 200
"""Results in the table of a machine or an organisation."""
NOT_STATED = "not stated"
REPRODUCIBILITY = "Reproducibility"
FEW = 5
"""Warnings that are open on the page of a result."""
Cell = Mapping[str, str]
RankOf = Mapping[tuple[str, str], Sequence[tuple[str, str]]]
"""Lists of a number of an entry, each as page and place."""


def make_ranks(edition: Edition) -> RankOf:
    """Return where each number of each entry stands, by entry and quantity."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for ranking in edition.rankings:
        for place in ranking.places:
            # Not the place itself: one new result would change the pages of all that come after it.
            words = "listed without a place" if place.place is None else "ranked in this list"
            # The throughput has no list of its own: the one per accelerator, or what stands for it, ranks it.
            per_unit = ranking.kind == "throughput_per_unit"
            quantity = "train_rate_samples_per_s" if per_unit else ranking.quantity
            words += f" per {edition.by_id[place.entry].unit}" if per_unit else ""
            found.setdefault((place.entry, quantity), []).append((list_href(ranking), words))
    return found


def make_result(edition: Edition, entry: Entry, ranks: RankOf) -> dict[str, Any]:
    """Return the template data of one result."""
    return {
        "id": entry.id,
        "title": entry.title,
        "benchmark": entry.benchmark_title or entry.benchmark,
        "division": entry.division or "no",
        "method": entry.basis,
        "values": [_value(entry, number, ranks.get((entry.id, number.quantity), ())) for number in entry.numbers],
        "compare": _comparison(entry, ranks),
        "groups": [_about(edition, entry), _settings(entry), _reproducibility(entry)],
        "verdict": say_verdict(entry.verdict),
        "judge": entry.verdict.judge,
        "checks": entry.verdict.checked,
        "reasons": _reasons(entry.verdict),
        "runs": _runs(entry),
        "files": _files(entry),
        "data": f"data/result/{entry.id}.json",
        "repeat": entry.repeat,
        "citation": cite_entry(edition, entry),
        "bibtex": say_bibtex(entry.id, entry.title, entry.organisation, edition),
    }


def _comparison(entry: Entry, ranks: RankOf) -> str:
    """Return where others to compare a result with are: its first list, in which it is chosen already."""
    lists = (href for number in entry.numbers for href, _ in ranks.get((entry.id, number.quantity), ()))
    page = next(lists, "")
    return f"{page}?compare={entry.id}" if page else f"compare.html?results={entry.id}"


def _reasons(verdict: Verdict) -> list[tuple[str, list[str], bool]]:
    """Return failures and warnings, each with its count; many warnings are shown when they are asked for."""
    found = []
    for severity in ("failure", "warning"):
        reasons = [one for one in verdict.reasons if one.severity == severity]
        lines = list(dict.fromkeys(_reason(one.code, one.text, one.place) for one in reasons))
        if lines:
            found.append((say_count(len(lines), severity), lines, severity == "failure" or len(lines) <= FEW))
    return found


def make_compared(edition: Edition, entry: Entry) -> dict[str, Any]:
    """Return what the comparison needs of one result."""
    machine = edition.machines_by_id.get(entry.machine)
    facts = [*_identity(entry, machine.name if machine else entry.system), *_words(entry.settings)]
    return {
        "id": entry.id,
        "title": f"{entry.title} ({entry.round})",
        "verdict": entry.verdict.status,
        "facts": [[name, text] for name, text in facts if text],
        "apart": {
            "benchmark": [entry.benchmark, entry.scaling],
            "division": entry.division,
            "basis": entry.basis,
            "dataset": [entry.dataset, entry.data],
            "quality target": entry.quality_target,
            "rules": entry.rules,
        },
        "values": [_compared_value(entry, number) for number in entry.numbers],
    }


def make_machine(edition: Edition, machine: Machine, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the template data of one machine."""
    facts = [
        _fact("Organisation", machine.organisation, organisation_href(machine.organisation)),
        *([] if machine.processor and not machine.accelerator else [_fact("Accelerator", machine.accelerator)]),
        _fact("Processor", machine.processor),
        *(_fact(say_name(name), text) for name, text in _words(machine.facts)),
    ]
    return {
        "kind": "machine",
        "title": machine.name or machine.id,
        "about": "All that is known of this machine: how it is described, what was measured on it, and its results.",
        "groups": [{"title": "Description", "facts": facts}],
        "tables": [_known_numbers(machine), *_not_measured(machine)],
        **_results(edition, entries),
    }


def make_organisation(edition: Edition, name: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the template data of one organisation."""
    used = {entry.machine for entry in entries}
    machines = [machine for machine in edition.machines if machine.id in used]
    models = [one.accelerator or one.processor or "machine" for one in machines]
    facts = [_fact(name, one.name, f"machine/{one.id}.html") for name, one in zip(models, machines, strict=True)]
    return {
        "kind": "organisation",
        "title": name,
        "about": "Machines and results of this organisation in this edition.",
        "groups": [{"title": "Machines", "facts": facts}],
        "tables": [],
        **_results(edition, entries),
    }


def say_bibtex(key: str, title: str, author: str, edition: Edition) -> str:
    """Return a BibTeX entry; braces and backslashes of names would end or begin commands."""
    fields = {
        "author": f"{{{_bibtex(author)}}}",
        "title": f"{{{_bibtex(title)}}}",
        "year": str(edition.made.year),
        "note": f"{_bibtex(edition.title)}, edition {edition.name}",
        "howpublished": _bibtex(edition.url),
    }
    lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def say_edition_bibtex(edition: Edition) -> str:
    """Return a BibTeX entry of the whole edition."""
    return say_bibtex(f"list-{edition.name}", edition.title, edition.title, edition)


def say_verdict(verdict: Verdict) -> str:
    """Return the verdict with its rules, as one line."""
    if verdict.label.startswith(verdict.status):
        return verdict.label
    rules = f" by {verdict.rule_set}" if verdict.rule_set else ""
    label = f": {verdict.label}" if verdict.label else ""
    return f"{verdict.status}{rules}{label}"


def make_row(edition: Edition, entry: Entry) -> dict[str, Any]:
    """Return one line of a table of results."""
    machine = edition.machines_by_id.get(entry.machine)
    leading = ("time_to_train_s", "models_per_min", "vflops_flop_per_s", "train_rate_samples_per_s")
    numbers = [number for name in leading if (number := entry.number(name))][:1] or list(entry.numbers[:1])
    return {
        "href": f"result/{entry.id}.html",
        "title": entry.title,
        "benchmark": entry.benchmark_title or entry.benchmark,
        "division": entry.division or "no division",
        "method": entry.basis,
        "machine": {"text": machine.name, "href": f"machine/{machine.id}.html"} if machine else None,
        "scale": say_used(entry) or NOT_STATED,
        "round": entry.round,
        "verdict": entry.verdict.status,
        "values": [say_amount(number, entry.quality_target) for number in numbers],
    }


def _results(edition: Edition, entries: Sequence[Entry]) -> dict[str, Any]:
    ordered = sorted(entries, key=lambda one: (-(one.year or 0), one.benchmark, one.units or 0, one.id))
    rows = [make_row(edition, entry) for entry in ordered[:MOST_RESULTS]]
    return {"results": rows, "left_out": say_whole(len(ordered) - MOST_RESULTS) if len(ordered) > MOST_RESULTS else ""}


def _value(entry: Entry, number: Number, ranks: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"shown": say_amount(number, entry.quality_target), "ranks": ranks, "meaning": number.interval}


def _identity(entry: Entry, machine: str) -> list[tuple[str, str]]:
    target = (
        "" if entry.quality_target is None else f"{say_name(entry.quality_metric)} {entry.quality_target:g}".strip()
    )
    return [
        ("Benchmark", entry.benchmark_title or entry.benchmark),
        ("Workload", entry.workload),
        ("Dataset", say_data(entry.dataset, entry.data)),
        ("Division", entry.division),
        ("Basis", entry.basis),
        ("Scaling", entry.scaling),
        ("Round", entry.round),
        ("Year", "" if entry.year is None else str(entry.year)),
        ("Organisation", entry.organisation),
        ("Machine", machine),
        ("System as submitted", entry.system),
        (name_device(entry.unit).capitalize(), entry.accelerator or entry.family),
        (say_units(entry.unit).capitalize(), "" if entry.units is None else say_whole(entry.units)),
        ("Nodes", "" if entry.nodes is None else say_whole(entry.nodes)),
        ("Variant", entry.variant),
        ("Scale", entry.scale),
        ("Quality target", target),
        ("Rules", entry.rules),
    ]


def _about(edition: Edition, entry: Entry) -> dict[str, Any]:
    machine = edition.machines_by_id.get(entry.machine)
    hrefs = {"Organisation": organisation_href(entry.organisation) if entry.organisation else ""}
    if machine:
        hrefs["Machine"] = f"machine/{machine.id}.html"
    named = _identity(entry, machine.name if machine else entry.system)
    more = [("Submission", entry.submission), ("In the list since", entry.added.isoformat() if entry.added else "")]
    return {
        "title": "Setting",
        "facts": [_fact(name, text, hrefs.get(name, "")) for name, text in [*named, *more] if text],
    }


def _settings(entry: Entry) -> dict[str, Any]:
    return {"title": "Settings as submitted", "facts": [_fact(name, text) for name, text in _words(entry.settings)]}


def _reproducibility(entry: Entry) -> dict[str, Any]:
    found = entry.reproducibility
    if found is None:
        facts = [_fact("Score", entry.no_reproducibility or "not measured")]
        return {"title": REPRODUCIBILITY, "facts": facts}
    facts = [_fact("Score", f"{found.score:.3g} of 100 points", note=found.method)]
    facts += [_fact(one.name, f"{one.points:g} of {one.most:g}", note=one.reason) for one in found.checks]
    return {"title": REPRODUCIBILITY, "facts": facts}


def _runs(entry: Entry) -> dict[str, Any]:
    headings = ["Run", "Outcome", "Counted", "Time [s]", "Samples/s", "Epochs", "Complies", "Remark"]
    truth = {True: "yes", False: "no", None: "not judged"}
    rows = [
        [
            make_cell(run.name),
            make_cell(run.outcome),
            make_cell("yes" if run.counted else "no"),
            *(
                make_cell("" if value is None else f"{value:,.6g}")
                for value in (run.time_s, run.samples_per_s, run.epochs)
            ),
            make_cell(truth[run.complies]),
            make_cell(run.reason or "–"),
        ]
        for run in entry.runs
    ]
    return make_table("Runs behind the numbers, failed ones included", headings, rows, numeric=(3, 4, 5))


def _files(entry: Entry) -> dict[str, Any]:
    rows = [[make_cell(file.path), make_cell(say_whole(file.bytes)), make_cell(file.sha256)] for file in entry.evidence]
    return make_table("Files of evidence", ["File", "Bytes", "SHA-256"], rows, numeric=(1,))


def _known_numbers(machine: Machine) -> dict[str, Any]:
    rows = []
    for number in machine.numbers:
        shown = say_amount(number)
        value = f"{shown.words} {shown.unit}".strip()
        # What is blank says nothing: it is not a value that somebody left out.
        about = "; ".join(part for part in (number.rule, number.setting, number.remark) if part) or "–"
        row = (shown.name, value, shown.interval, about, shown.method, shown.source)
        rows.append([make_cell(one) for one in row])
    headings = ["Quantity", "Value", "Interval", "Rule and setting", "Method", "Source"]
    table = make_table("Known besides results", headings, rows, numeric=(1, 2))
    return {**table, "missing": "No submission gives HPL, memory, storage or power of this machine."}


def _not_measured(machine: Machine) -> list[dict[str, Any]]:
    """Return what other machines have and this one lacks, with the reasons."""
    rows = [[make_cell(one.title), make_cell(one.reason)] for one in machine.not_measured]
    return [make_table("Not measured", ["Quantity", "Reason"], rows)] if rows else []


def _compared_value(entry: Entry, number: Number) -> dict[str, Any]:
    form = choose_format(number.quantity, number.unit, [number.value])
    shown = say_amount(number, entry.quality_target)
    return {
        "name": shown.name,
        "words": shown.words,
        "unit": form.unit,
        "factor": form.factor,
        "better": "lower" if number.quantity in LOWER_IS_BETTER else "higher",
        "value": number.value,
        "low": number.low,
        "high": number.high,
        "least": number.least,
        "most": number.most,
        "repeats": repeats_of(entry, number.quantity),
    }


_ABOUT = {
    "number": Markup('class="number"'),
    "text": Markup('class="text"'),
    "head": Markup('scope="row"'),
}


def make_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]], numeric: Sequence[int] = ()
) -> dict[str, Any]:
    """Return the template data of a table of texts; ``numeric`` are the places of columns of numbers."""
    heads = [
        {
            "words": words,
            "number": place in numeric,
            "tag": "td" if place else "th",
            "about": _ABOUT["number" if place in numeric else "text" if place else "head"],
        }
        for place, words in enumerate(headings)
    ]
    return {"title": title, "headings": heads, "rows": rows, "missing": "None in this edition."}


def make_cell(text: Value, href: str = "") -> dict[str, str]:
    """Return one cell."""
    return {"text": NOT_STATED if text in (None, "") else str(text), "href": href}


def _words(pairs: Sequence[tuple[str, Value]]) -> list[tuple[str, str]]:
    return [(name, _say(value)) for name, value in pairs if value not in (None, "")]


def _say(value: Value) -> str:
    """Return a value as its submission has it; tables make fractions of whole numbers."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else str(value)


def _fact(name: str, text: str, href: str = "", note: str = "") -> dict[str, str]:
    return {"name": name, "text": text or NOT_STATED, "href": href if text else "", "note": note}


def _reason(code: str, text: str, place: str) -> str:
    return f"{place + ': ' if place else ''}{text} ({code})"


def _bibtex(text: str) -> str:
    return "".join("" if sign in "{}\\" else sign for sign in text)
