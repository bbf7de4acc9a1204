"""The list for machines: JSON, CSV, Parquet and their schema, an Atom feed, metadata, citations and differences."""

import csv
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import yaml

from hpcai.core.errors import ConfigError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.core.table_files import write_parquet
from hpcai.listing.entries import (
    DRAFT,
    EDITION,
    Change,
    Difference,
    Edition,
    Entry,
    MachineNumber,
    Number,
    Value,
    cite_edition,
)
from hpcai.listing.site_files import remove_others
from hpcai.records.folders import check_manifest, write_manifest, written_whole

FROZEN = Message("data_files.frozen", "the edition {name} exists; a frozen edition never changes, name a later month")
BAD_EDITION = Message(
    "data_files.bad_edition", "--freeze: found {name!r}, expected a month up to {month}, such as 2026-11"
)

LIST, CITATION, FEED = "list.json", "CITATION.cff", "feed.xml"
SHORT = {"entries": {"__all__": {"runs", "evidence", "settings"}}}
"""What list.json leaves out of each entry; `data/result/ID.json` has everything."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Signs with which a spreadsheet's formula begins."""
FEED_ENTRIES = 100
ATOM = "http://www.w3.org/2005/Atom"
PLAIN = (
    "id", "title", "basis", "suite", "round", "benchmark", "benchmark_title", "workload", "dataset", "data",
    "division", "scaling", "organisation", "machine", "system", "variant", "scale", "nodes", "units", "unit",
    "accelerator", "family", "year", "quality_metric", "quality_target", "rules", "runs_by_rule",
    "runs_sha256", "submission", "added",
)  # fmt: skip
"""Fields of an entry that are columns of entries.csv; its verdict and numbers follow."""
NO_CHANGES = ("id", "added", "submission", "scale", "unit")
"""Columns that are no part of a difference: editions of earlier versions lack the last two."""
QUANTITIES = (
    "time_to_train_s", "train_rate_samples_per_s", "vflops_flop_per_s", "vflops_flop_per_j", "rate_flop_per_s",
    "models_per_min", "quality", "reproducibility_score",
)  # fmt: skip
"""Numbers that are columns of entries.csv; numbers.csv has all, with units and intervals."""


@dataclass(frozen=True)
class Table:
    """A table of the list: names of its columns, and its rows; None is a cell without a value.

    Rows, not a frame: of a list of ten thousand entries, pandas takes twice as long to write them as CSV.
    """

    names: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    counts: frozenset[str] = frozenset()
    """Columns of whole numbers."""
    numbers: frozenset[str] = frozenset()
    """Columns of other numbers."""

    def frame(self) -> pd.DataFrame:
        """Return the table as a frame, with a type for each column of numbers."""
        types = {**dict.fromkeys(self.counts, "Int64"), **dict.fromkeys(self.numbers, "float64")}
        return pd.DataFrame(self.rows, columns=list(self.names)).astype(types)


_plain_of = attrgetter(*PLAIN)


def entry_table(entries: Iterable[Entry]) -> Table:
    """Return one row per entry."""
    return Table(
        names=(*PLAIN, "status", "rule_set", "runs", *QUANTITIES),
        rows=[_entry_row(entry) for entry in entries],
        counts=frozenset(("nodes", "units", "year", "runs_by_rule", "runs")),
        numbers=frozenset(("quality_target", *QUANTITIES)),
    )


def _entry_row(entry: Entry) -> tuple[Value, ...]:
    *plain, added = _plain_of(entry)
    numbers = {number.quantity: number.value for number in entry.numbers}
    verdict = entry.verdict
    return (
        *plain, added.isoformat() if added else "", verdict.status, verdict.rule_set, len(entry.runs),
        *(numbers.get(name) for name in QUANTITIES),
    )  # fmt: skip


def number_table(entries: Iterable[Entry]) -> Table:
    """Return one row per number of an entry, with unit, interval, method and source."""
    names = tuple(Number.model_fields)
    values_of = attrgetter(*names)
    return Table(
        names=("entry", *names),
        rows=[(entry.id, *values_of(one)) for entry in entries for one in entry.numbers],
        counts=frozenset(("n",)),
        numbers=frozenset(("value", "low", "high", "least", "most")),
    )


def refusal_table(edition: Edition) -> Table:
    """Return one row per reason of a refusal."""
    rows = [
        (refusal.id, refusal.submission, refusal.place, reason.code, reason.place, reason.text)
        for refusal in edition.refused
        for reason in refusal.reasons
    ]
    return Table(("id", "submission", "place", "code", "file", "text"), rows)


def prediction_table(edition: Edition) -> Table:
    """Return one row per prediction, with what was measured."""
    rows = [
        (one.entry, one.number.quantity, one.number.unit, one.number.value, one.number.low, one.number.high,
         one.measured.value, one.number.interval, one.made_from, one.number.method, one.measured.method,
         one.number.source)
        for one in edition.predictions
    ]  # fmt: skip
    names = (
        "entry", "quantity", "unit", "predicted", "low", "high", "measured", "interval", "made_from", "method",
        "measured_method", "source",
    )  # fmt: skip
    return Table(names, rows)


def machine_table(edition: Edition) -> Table:
    """Return one row per number that is known of a machine besides its results."""
    names = tuple(MachineNumber.model_fields)
    values_of = attrgetter(*names)
    rows = [(machine.id, *values_of(one)) for machine in edition.machines for one in machine.numbers]
    return Table(("machine", *names), rows)


def write_csv(table: Table, path: Path) -> None:
    """Write a table as CSV in which no text runs as a formula.

    A spreadsheet computes a cell that begins with one of :data:`FORMULA`, and a formula can send the reader's data
    away. Such a text gets an apostrophe before it; numbers stay as they are, and so do the JSON and Parquet files.

    References
    ----------
    OWASP, CSV injection.
    """
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(zip(*map(_disarm_column, zip(*table.rows, strict=True)), strict=True))
    write_atomically(path, text.getvalue().encode("utf-8"))


def _disarm_column(cells: tuple[Value, ...]) -> Iterable[Value]:
    """Return a column that is safe: few of many cells are different ones, and hardly any has to change."""
    texts = [cell for cell in set(cells) if isinstance(cell, str)]
    changed: dict[Value, str] = {cell: words for cell in texts if (words := disarm(cell)) != cell}
    return [changed.get(cell, cell) for cell in cells] if changed else cells


def disarm(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; a carriage return would begin another cell."""
    words = cell.replace("\r", " ")
    return f"'{words}" if cell.startswith(FORMULA) else words


def write_tables(edition: Edition, folder: Path) -> None:
    """Write the whole edition as list.json, and its tables as CSV and Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / LIST, (edition.model_dump_json(exclude=SHORT) + "\n").encode())
    tables = {"entries": entry_table(edition.entries), "numbers": number_table(edition.entries)}
    for name, table in tables.items():
        write_csv(table, folder / f"{name}.csv")
        write_parquet(table.frame(), folder / f"{name}.parquet")
    write_csv(refusal_table(edition), folder / "refused.csv")
    write_csv(prediction_table(edition), folder / "predictions.csv")
    write_csv(machine_table(edition), folder / "machine_numbers.csv")


def write_site_data(edition: Edition, folder: Path, changed: Iterable[Entry]) -> None:
    """Write all files for machines, of entries only the changed ones, and remove those of entries that are gone."""
    write_tables(edition, folder / "data")
    results = folder / "data" / "result"
    results.mkdir(exist_ok=True)
    for entry in changed:
        write_atomically(results / f"{entry.id}.json", (entry.model_dump_json(indent=1) + "\n").encode())
    remove_others(folder, ["data/result"], (f"data/result/{entry.id}.json" for entry in edition.entries))
    schema = json.dumps(list_schema(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "data" / "schema.json", schema.encode())
    write_atomically(folder / FEED, atom_feed(edition))
    write_atomically(folder / CITATION, citation_file(edition).encode())


def list_schema() -> dict[str, Any]:
    """Return the JSON schema of list.json, whose entries lack runs, evidence and settings, and of each whole entry."""
    schema = Edition.model_json_schema(mode="serialization")
    for name in SHORT["entries"]["__all__"]:
        schema["$defs"]["Entry"]["required"] = [
            one for one in schema["$defs"]["Entry"].get("required", []) if one != name
        ]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def atom_feed(edition: Edition) -> bytes:
    """Return the newest entries as an Atom feed (RFC 4287)."""
    ElementTree.register_namespace("", ATOM)
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    base = f"{edition.url.rstrip('/')}/" if edition.url else ""
    newest = sorted(edition.entries, key=lambda entry: (entry.added or edition.made, entry.id), reverse=True)[
        :FEED_ENTRIES
    ]
    updated = newest[0].added if newest else edition.made
    _add(feed, "id", f"{base}{FEED}" if base else "urn:hpcai:list")
    _add(feed, "title", edition.title)
    _add(feed, "updated", _instant(updated or edition.made))
    _add(feed, "link", href=f"{base}{FEED}", rel="self")
    for entry in newest:
        one = ElementTree.SubElement(feed, f"{{{ATOM}}}entry")
        _add(one, "id", f"urn:hpcai:list:{entry.id}")
        _add(one, "title", entry.title)
        _add(one, "updated", _instant(entry.added or edition.made))
        _add(one, "link", href=f"{base}result/{entry.id}.html")
        _add(ElementTree.SubElement(one, f"{{{ATOM}}}author"), "name", entry.organisation)
        _add(one, "summary", f"{entry.round}, {entry.basis}, {entry.verdict.status}")
    content: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return content


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> None:
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}", attributes)
    # XML has no control characters at all, and a foreign text may hold any other sign.
    element.text = "".join(sign for sign in text if sign.isprintable() or sign == " ") or None


def _instant(day: datetime.date) -> str:
    return f"{day.isoformat()}T00:00:00Z"


def citation_file(edition: Edition) -> str:
    """Return how to cite an edition, as a file of the Citation File Format 1.2.0."""
    values: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": f"To cite this edition: {cite_edition(edition)}",
        "type": "dataset",
        "title": f"{edition.title}, edition {edition.name}",
        "version": edition.name,
        "date-released": edition.made,
        "authors": [{"name": name} for name in edition.organisations.values()] or [{"name": edition.title}],
    }
    if edition.url:
        values["url"] = edition.url
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def dataset_metadata(edition: Edition) -> dict[str, Any]:
    """Return the description of an edition as a schema.org Dataset, for JSON-LD."""
    base = f"{edition.url.rstrip('/')}/" if edition.url else ""
    kinds = {"json": "application/json", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
    files = {"list.json": "json", "entries.csv": "csv", "entries.parquet": "parquet", "numbers.csv": "csv"}
    years = sorted(entry.year for entry in edition.entries if entry.year)
    described: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "Dataset",
        "name": f"{edition.title}, edition {edition.name}",
        "description": f"{len(edition.entries)} results of HPC AI500 and MLPerf HPC with evidence and verdicts",
        "version": edition.name,
        "dateModified": edition.made.isoformat(),
        "creator": [{"@type": "Organization", "name": name} for name in edition.organisations.values()],
        "measurementTechnique": "HPC AI500 V2.0, MLPerf HPC",
        "distribution": [
            {"@type": "DataDownload", "encodingFormat": kinds[kind], "contentUrl": f"{base}data/{name}"}
            for name, kind in files.items()
        ],
    }
    if years:
        described["temporalCoverage"] = f"{years[0]}/{years[-1]}"
    if edition.url:
        described["url"] = edition.url
    return described


def read_editions(folder: Path) -> dict[str, Edition]:
    """Return all frozen editions, oldest first.

    Raises
    ------
    RecordError
        If a file of one was changed since it was frozen.
    """
    names = sorted(path.name for path in folder.iterdir() if EDITION.fullmatch(path.name)) if folder.is_dir() else []
    found = {}
    for name in names:
        check_manifest(folder / name)
        found[name] = Edition.model_validate_json((folder / name / LIST).read_bytes())
    return found


def freeze(edition: Edition, folder: Path) -> Path:
    """Write an edition that never changes; return its folder.

    Raises
    ------
    ConfigError
        If it exists already.
    """
    target = folder / edition.name
    if target.exists():
        raise ConfigError(at(str(target), FROZEN(name=edition.name)))
    with written_whole(target, marker=LIST) as building:
        write_tables(edition, building)
        (building / CITATION).write_text(citation_file(edition), encoding="utf-8")
        write_manifest(building)
    return target


def require_edition(name: str, today: datetime.date) -> str:
    """Return the name of an edition to freeze.

    Raises
    ------
    ConfigError
        If it is no month, or a later one than this.
    """
    month = today.isoformat()[:7]
    if not EDITION.fullmatch(name) or name > month:
        raise ConfigError(BAD_EDITION(name=name, month=month))
    return name


def differences_of(editions: Mapping[str, Edition], draft: Edition) -> dict[str, Difference]:
    """Return the differences between each edition and the next, the draft last, by "A..B"."""
    ordered = [*editions.values(), *([draft] if draft.name == DRAFT else [])]
    return {f"{one.name}..{two.name}": compare_editions(one, two) for one, two in pairwise(ordered)}


def compare_editions(before: Edition, after: Edition) -> Difference:
    """Return what was added, removed and changed between two editions."""
    both = [(before.by_id[key], after.by_id[key]) for key in before.by_id if key in after.by_id]
    return Difference(
        before=before.name,
        after=after.name,
        added=tuple(key for key in after.by_id if key not in before.by_id),
        removed=tuple(key for key in before.by_id if key not in after.by_id),
        changed=tuple(change for one, two in both for change in _changes(one, two)),
    )


def _changes(one: Entry, two: Entry) -> Iterable[Change]:
    old, new = _values(one), _values(two)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Change(entry=one.id, field=name, before=old.get(name), after=new.get(name))


def _values(entry: Entry) -> dict[str, Value]:
    plain = {name: getattr(entry, name) for name in PLAIN if name not in NO_CHANGES}
    numbers = {number.quantity: number.value for number in entry.numbers}
    return {**plain, "verdict": entry.verdict.status, "rule_set": entry.verdict.rule_set, **numbers}
