"""Write the pages of an edition: lists, results, machines, organisations, comparison, and the pages over all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hpcai.listing import overview_views as overview
from hpcai.listing.charts import Sketch, draw_predictions, draw_records, draw_scaling, thin_out
from hpcai.listing.data_files import dataset_metadata
from hpcai.listing.entries import NOT_VALID, Difference, Edition, Entry
from hpcai.listing.entry_views import (
    make_cell,
    make_compared,
    make_machine,
    make_organisation,
    make_ranks,
    make_result,
    make_table,
)
from hpcai.listing.listed import Listed, list_all
from hpcai.listing.numbers import name_quantity
from hpcai.listing.ranking_views import (
    SUBMIT_COMMAND,
    list_href,
    make_list,
    make_list_data,
    name_kind,
    organisation_href,
)
from hpcai.listing.rendering import Site
from hpcai.listing.site_files import remove_others
from hpcai.listing.units import join_units, name_device, say_unit
from hpcai.records.folders import MANIFEST
from hpcai.report.embedding import embed_json
from hpcai.report.own_pages import find_sources

PREDICTIONS = "predictions.html"
"""The page that is there only if a prediction is followed by a result."""
MENU = (
    ("index.html", "Answers and lists"),
    ("machines.html", "Machines"),
    ("organisations.html", "Organisations"),
    ("records.html", "Records"),
    ("scaling.html", "Scaling"),
    (PREDICTIONS, "Predictions"),
    ("compare.html", "Compare"),
    ("refused.html", "Refused"),
    ("editions.html", "Editions"),
    ("submit.html", "Submit"),
)
FILES = (
    ("data/entries.csv", "CSV"),
    ("data/entries.parquet", "Parquet"),
    ("data/list.json", "JSON"),
    ("data/schema.json", "schema"),
    ("CITATION.cff", "citation"),
    ("feed.xml", "feed"),
)
PLACES = ("result", "machine", "organisation", "list", "difference", "assets/charts")
"""Folders of which a site has what its edition has, and nothing from before."""
CHARTED = ("time_to_train", "throughput_per_unit", "vflops")
"""Kinds of lists whose records are drawn."""
SCALING_CAPTION = "Logarithmic axes. Results of other data or targets are other work."
SUBMIT = (
    "The command checks a results folder, names each host name, user name and path that it finds, refuses secrets, "
    "tells the size, and writes a package and the text of a pull request to the repository of this list."
)


@dataclass(frozen=True)
class _Maker:
    """An edition with what several of its pages need."""

    edition: Edition
    site: Site
    changed: frozenset[str] | None

    def is_wanted(self, name: str) -> bool:
        """Tell whether a page of one result, machine or organisation is to be written."""
        return self.changed is None or name in self.changed

    @cached_property
    def by_machine(self) -> Mapping[str, Sequence[Entry]]:
        """Results of each machine."""
        return _grouped(self.edition, lambda entry: entry.machine)

    @cached_property
    def by_organisation(self) -> Mapping[str, Sequence[Entry]]:
        """Results of each organisation, by its name."""
        return _grouped(self.edition, lambda entry: entry.organisation)

    @cached_property
    def lists(self) -> Sequence[Listed]:
        """All lists, each with its values."""
        return list_all(self.edition)

    @cached_property
    def benchmarks(self) -> Sequence[str]:
        """All benchmarks, by their readable names."""
        titles = self.edition.benchmark_titles
        return sorted(titles, key=lambda benchmark: titles[benchmark].casefold())


def write_pages(
    edition: Edition, folder: Path, changed: frozenset[str] | None, differences: Mapping[str, Difference]
) -> None:
    """Write the pages of an edition.

    Parameters
    ----------
    edition
        What the site shows.
    folder
        The site.
    changed
        Pages of single things to write, such as ``result/ID``, ``machine/ID``, ``organisation/ID``; None for all.
        Pages over many things are always written.
    differences
        Between two editions, by ``A..B``.
    """
    maker = _Maker(edition, Site(folder, find_sources(), _frame(edition)), changed)
    maker.site.write_assets()
    _write_results(maker)
    _write_places(maker)
    _write_lists(maker)
    _write_overviews(maker)
    _write_editions(maker, differences)
    _remove_the_rest(maker)


def _remove_the_rest(maker: _Maker) -> None:
    """Remove the files of results, lists and all others that an earlier build wrote and this edition has no more."""
    edition = maker.edition
    kept = {f"result/{entry.id}.{kind}" for entry in edition.entries for kind in ("html", "js")}
    kept |= {f"machine/{machine.id}.html" for machine in edition.machines}
    kept |= {organisation_href(name) for name in maker.by_organisation}
    remove_others(maker.site.folder, PLACES, maker.site.written | kept)


def _frame(edition: Edition) -> dict[str, Any]:
    feed = {"rel": "alternate", "type": "application/atom+xml", "title": "New results", "href": "feed.xml"}
    foretold = overview.predicted_quantities(edition)
    return {
        "title": edition.title,
        "edition": edition.name,
        "made": edition.made.isoformat(),
        "menu": [{"href": href, "words": words} for href, words in MENU if href != PREDICTIONS or foretold],
        "files": [{"href": href, "words": words} for href, words in FILES],
        "links": [feed],
        "submit": "submit.html",
    }


def _grouped(edition: Edition, key: Callable[[Entry], str]) -> Mapping[str, Sequence[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in edition.entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def _write_results(maker: _Maker) -> None:
    ranks = make_ranks(maker.edition)
    for entry in maker.edition.entries:
        if maker.is_wanted(f"result/{entry.id}"):
            maker.site.write_page(f"result/{entry.id}.html", "result", make_result(maker.edition, entry, ranks))
            before = f'(window.hpcaiResults ??= {{}})["{entry.id}"]'
            maker.site.write_data(f"result/{entry.id}.js", before, make_compared(maker.edition, entry))


def _write_places(maker: _Maker) -> None:
    edition, site = maker.edition, maker.site
    for machine in edition.machines:
        if maker.is_wanted(f"machine/{machine.id}"):
            view = make_machine(edition, machine, maker.by_machine.get(machine.id, ()))
            site.write_page(f"machine/{machine.id}.html", "place", view)
    for name, entries in maker.by_organisation.items():
        place = organisation_href(name)
        if maker.is_wanted(place.removesuffix(".html")):
            site.write_page(place, "place", make_organisation(edition, name, entries))
    machines = overview.machine_table(edition, maker.by_machine)
    organisations = overview.organisation_table(maker.by_organisation)
    _write_simple(
        maker, "machines.html", "Machines", "Every machine with a result in this edition.", _section(tables=[machines])
    )
    question = "Every organisation with a result in this edition."
    _write_simple(maker, "organisations.html", "Organisations", question, _section(tables=[organisations]))


def _write_lists(maker: _Maker) -> None:
    for listed in maker.lists:
        maker.site.write_page(list_href(listed.ranking), "list", make_list(listed))
        for place, part in make_list_data(listed):
            maker.site.write_call(place, "(window.hpcaiList ??= []).push", part)


def _write_overviews(maker: _Maker) -> None:
    edition = maker.edition
    scaling = list(_scaling_sections(maker))
    records = list(_record_sections(maker))
    question = "How the best result of each list moved, from its first round. Results without a year are left out."
    _write_simple(maker, "records.html", "Records over the years", question, *records)
    question = f"Throughput per {say_unit(edition.entries)} of every result: a flat line is perfect scaling."
    _write_simple(maker, "scaling.html", "Scaling of everything", question, *scaling)
    _write_predictions(maker)
    question = "Everything that failed a check, with every reason. Nothing is dropped silently."
    refused = _section(tables=[overview.refused_table(edition)])
    _write_simple(maker, "refused.html", "Refused submissions", question, refused)
    charts = [{**section["charts"][0], "page": "records.html"} for section in records if section["charts"]][:1]
    charts += [{**section["charts"][0], "page": "scaling.html"} for section in scaling if section["charts"]][:1]
    view = {**overview.make_index(edition, maker.lists, charts), "metadata": embed_json(dataset_metadata(edition))}
    maker.site.write_page("index.html", "index", view)
    maker.site.write_page("compare.html", "compare", {})
    needed = overview.needed_table(edition)
    sections = [
        _section("What to run", lines=[SUBMIT], code=SUBMIT_COMMAND),
        _section("What a result needs", tables=[needed]),
    ]
    _write_simple(maker, "submit.html", "Submit a result", "What to submit to be compared.", *sections)


def _record_sections(maker: _Maker) -> Iterator[dict[str, Any]]:
    caption = "Each point is a result that was better than all before it in its list. Logarithmic axis."
    for number, benchmark in enumerate(maker.benchmarks):
        benchmark_title = maker.edition.benchmark_titles[benchmark]
        charts = []
        for kind in CHARTED:
            rows, unit = overview.record_rows(maker.lists, benchmark, kind)
            if len({row["year"] for row in rows}) > 1:
                words = name_kind(kind, _entries_of(maker, benchmark, kind))
                title = f"{benchmark_title}: {words.lower()}"
                sketch = draw_records(rows, words, unit)
                charts.append(_chart(maker, f"records-{number}-{kind}", title, sketch, caption))
        table = overview.record_table(maker.lists, benchmark, benchmark_title)
        # One year is no course of anything: the table has its numbers.
        lines = [] if charts or not table["rows"] else ["All records are of one year: nothing has moved yet."]
        yield _section(benchmark_title, lines=lines, charts=charts, tables=[table])


def _entries_of(maker: _Maker, benchmark: str, kind: str) -> list[Entry]:
    """Return the results in all lists of one kind of a benchmark."""
    lists = (one for one in maker.lists if (one.ranking.benchmark, one.ranking.kind) == (benchmark, kind))
    return [entry for one in lists for entry in one.entries]


def _scaling_sections(maker: _Maker) -> Iterator[dict[str, Any]]:
    for number, benchmark in enumerate(maker.benchmarks):
        rows = overview.scaling_rows(maker.edition, benchmark)
        title = maker.edition.benchmark_titles[benchmark]
        charts = []
        if rows:
            kept = thin_out(rows)
            unit = join_units(row["unit"] for row in rows)
            shown = "every result" if len(kept) == len(rows) else f"the best of each {name_device(unit)} and scale"
            hollow = " Hollow marks are not valid." if any(row["verdict"] == NOT_VALID for row in kept) else ""
            caption = f"Strong scaling: {shown}.{hollow} {SCALING_CAPTION}"
            told = overview.tell_scaling(maker.edition, kept)
            sketch = draw_scaling(told, f"throughput per {unit}", "samples/s", unit)
            charts.append(_chart(maker, f"scaling-{number}", f"{title}: scaling per {unit}", sketch, caption))
        yield _section(title, charts=charts, tables=[overview.scaling_table(title, rows)])


def _write_predictions(maker: _Maker) -> None:
    """Write the page of predictions, or take it away if none is followed by a result."""
    sections = list(_prediction_sections(maker))
    if not sections:
        (maker.site.folder / PREDICTIONS).unlink(missing_ok=True)
        return
    question = "What was predicted from earlier results or by a model, beside what was published or measured."
    _write_simple(maker, PREDICTIONS, "Predictions beside results", question, *sections)


def _prediction_sections(maker: _Maker) -> Iterator[dict[str, Any]]:
    for number, quantity in enumerate(overview.predicted_quantities(maker.edition)):
        rows = overview.prediction_rows(maker.edition, quantity)
        charts = []
        if all(min(row["predicted"], row["measured"]) > 0 for row in rows):
            sketch = draw_predictions(*overview.scale_predictions(quantity, rows))
            caption = "On the dashed line a prediction equals the result. Both axes are logarithmic."
            charts.append(
                _chart(maker, f"predictions-{number}", f"Predictions of {name_quantity(quantity)}", sketch, caption)
            )
        yield _section(name_quantity(quantity), charts=charts, tables=[overview.prediction_table(quantity, rows)])


def _write_editions(maker: _Maker, differences: Mapping[str, Difference]) -> None:
    edition = maker.edition
    names = [*edition.earlier, edition.name] if edition.name not in edition.earlier else list(edition.earlier)
    files = [("list.json", "JSON"), ("entries.csv", "CSV"), ("CITATION.cff", "citation"), (MANIFEST, "digests")]
    frozen = [name for name in names if name in edition.earlier or edition.frozen]
    headings = ["Edition", *(words for _, words in files)]
    rows = [
        [make_cell(name), *(make_cell(words, f"editions/{name}/{file}") for file, words in files)] for name in frozen
    ]
    compared = [[make_cell(key, f"difference/{key}.html")] for key in differences]
    tables = [make_table("Frozen editions", headings, rows), make_table("Differences", ["Editions"], compared)]
    question = "A frozen edition never changes: cite it. The draft may still change."
    _write_simple(maker, "editions.html", "Editions", question, _section(tables=tables))
    for key, difference in differences.items():
        title = f"From {difference.before} to {difference.after}"
        tables = overview.difference_tables(edition, difference)
        sections = [_section(f"{table['title']} ({len(table['rows'])})", tables=[table]) for table in tables]
        _write_simple(maker, f"difference/{key}.html", title, "What changed between two editions.", *sections)


def _chart(maker: _Maker, name: str, title: str, sketch: Sketch, caption: str) -> dict[str, Any]:
    place = f"assets/charts/{name}.svg"
    drawing = sketch.draw(maker.site.folder / place)
    maker.site.write_text(place, drawing.svg)
    maker.site.write_data(f"assets/charts/{name}.js", f'(window.hpcaiSpecifications ??= {{}})["{name}"]', sketch.spec)
    sizes = {"width": drawing.width, "height": drawing.height, "alt": drawing.alt}
    return {"name": name, "title": title, "href": place, "caption": caption, **sizes}


def _section(title: str = "", **parts: Any) -> dict[str, Any]:  # noqa: ANN401  template data
    return {"title": title, "id": "", "lines": [], "charts": [], "tables": [], "code": "", **parts}


def _write_simple(maker: _Maker, place: str, title: str, question: str, *sections: Mapping[str, Any]) -> None:
    maker.site.write_page(place, "page", {"title": title, "question": question, "sections": sections})
