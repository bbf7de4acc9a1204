"""A report document as HTML: a fragment for the big report, and a page of its own that needs no other file."""

import html
import re
from collections.abc import Iterator, Sequence

from hpcai.core.text import say_bytes, say_rate, say_time
from hpcai.report.hpc_ai500.model import Column, Document, Item, Level, Part, Table, Value

STATUS_WORDS = {"present": "present", "missing": "missing", "not_applicable": "does not apply"}
SHORT, LONG = 26, 80
"""Characters up to which a text stays on one line, and from which on it needs a wide column."""
CODE = re.compile(r"`([^`]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+[\w-]+\.\w+")
"""A path in a sentence; a unit such as MB/s is none."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --mute: #59636f; --line: #d0d7de; --head: #f3f5f7; --back: #ffffff;
  --good: #146c2e; --bad: #b3261e; --link: #0b57d0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ed; --mute: #a3acb8; --line: #3a424c; --head: #20262e; --back: #14181d; --good: #7fd69a;
    --bad: #ff9a8f; --link: #8ab4f8; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem clamp(.75rem, 3vw, 2rem) 3rem; max-width: 82rem; background: var(--back);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .25rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p, ul { max-width: 62rem; margin: .4rem 0; }
a { color: var(--link); }
code { font-size: .92em; overflow-wrap: break-word; }
@page { size: A4 landscape; margin: 12mm; }
@media print { body { padding: 0; font-size: 11px; } }
"""
"""Style of a page of its own."""
FRAGMENT_STYLE = """
.hpc-ai500 .headline { border-left: .3rem solid var(--bad); padding: .4rem .8rem; background: var(--head); }
.hpc-ai500 .headline.complete { border-color: var(--good); }
.hpc-ai500 .rule, .hpc-ai500 .note { color: var(--mute); font-size: .92em; }
.hpc-ai500 .scroll { overflow-x: auto; max-width: 100%; }
.hpc-ai500 table { border-collapse: collapse; font-size: .92em; font-variant-numeric: tabular-nums; width: 100%; }
.hpc-ai500 th, .hpc-ai500 td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
.hpc-ai500 thead th { background: var(--head); }
.hpc-ai500 tbody th { font-weight: 600; }
.hpc-ai500 th.group { background: var(--head); color: var(--mute); font-weight: 400; }
.hpc-ai500 .number, .hpc-ai500 .short { white-space: nowrap; }
.hpc-ai500 .number { text-align: right; }
.hpc-ai500 .text { min-width: 16rem; }
.hpc-ai500 .long { min-width: 26rem; }
.hpc-ai500 summary { cursor: pointer; margin: 1rem 0 .3rem; }
.hpc-ai500 summary :is(h3, h4, h5) { display: inline; }
.hpc-ai500 .items { table-layout: fixed; min-width: 52rem; }
.hpc-ai500 .items th, .hpc-ai500 .items td { overflow-wrap: break-word; }
.hpc-ai500 .items a { overflow-wrap: normal; }
.hpc-ai500 .part { display: inline-block; text-decoration: inherit; }
.hpc-ai500 .items thead th:nth-child(1) { width: 18%; }
.hpc-ai500 .items thead th:nth-child(2) { width: 25%; }
.hpc-ai500 .items thead th:nth-child(3) { width: 10%; }
.hpc-ai500 .items thead th:nth-child(4) { width: 19%; }
.hpc-ai500 .present .status { color: var(--good); }
.hpc-ai500 .missing .status { color: var(--bad); font-weight: 600; }
.hpc-ai500 .not_applicable .status, .hpc-ai500 .none { color: var(--mute); }
@media (max-width: 44rem) {
  .hpc-ai500 .items thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .hpc-ai500 .items, .hpc-ai500 .items tbody, .hpc-ai500 .items tr, .hpc-ai500 .items th, .hpc-ai500 .items td {
    display: block; }
  .hpc-ai500 .items tr { border-bottom: 1px solid var(--line); padding: .35rem 0; }
  .hpc-ai500 .items { min-width: 0; }
  .hpc-ai500 .items tbody :is(th, td) { border: 0; padding: .1rem .4rem; width: auto; }
  .hpc-ai500 .long { min-width: 16rem; }
  .hpc-ai500 .items td:empty { display: none; }
}
@media print {
  .hpc-ai500 .scroll { overflow: visible; }
  .hpc-ai500 table { font-size: .68em; }
  .hpc-ai500 th, .hpc-ai500 td { padding: .2rem .3rem; }
  .hpc-ai500 :is(.number, .short) { white-space: normal; }
  .hpc-ai500 :is(.text, .long, .items) { min-width: 0; }
  .hpc-ai500 details::details-content { content-visibility: visible; block-size: auto; }
  .hpc-ai500 tr { break-inside: avoid; }
}
"""
"""Style of the fragment; the variables --bad, --good, --head, --line and --mute are the page's."""


def document_html(document: Document, *, folder: str = "", level: int = 3) -> str:
    """Return a document as one section with headings, lists and tables; classes only.

    Parameters
    ----------
    document
        What a ``report.json`` holds.
    folder
        Path from the page to the document's folder, with a slash at its end; blank if they are the same.
    level
        Level of the headings of the four parts; tables and lists have one more.
    """
    parts = [_part(number, part, folder, level) for number, part in enumerate(document.parts, 1)]
    complete = " complete" if document.complete else ""
    about = (
        f"<p>{_text(document.title)}. Workload {_text(document.workload)}, machine {_text(document.machine)}, study "
        f"{_text(document.study)}; {document.runs} runs, of which {document.failed_runs} broke down or diverged. "
        f'All files: <a href="{_text(folder)}README.md">README.md</a>, '
        f'<a href="{_text(folder)}report.json">report.json</a>, '
        f'<a href="{_text(folder)}MANIFEST.sha256">MANIFEST.sha256</a>.</p>'
    )
    return "\n".join(
        [
            f'<section class="hpc-ai500" id="hpc-ai500-{_text(document.benchmark)}">',
            f'<p class="headline{complete}"><strong>{_text(document.headline)}</strong></p>',
            about,
            *parts,
            *_judgement(document, level),
            "</section>",
        ]
    )


def document_page(document: Document) -> str:
    """Return a document as a page of its own: light, dark and printable, without scripts."""
    title = _text(f"Report document of {document.benchmark}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<title>{title}</title><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{FRAGMENT_STYLE}</style></head>\n<body><main><h1>{title}</h1>"
        f"<p>What {_text(document.rules)}, section 6.3.3, asks a complete report to contain.</p>\n"
        f"{document_html(document, level=2)}\n</main></body></html>\n"
    )


def _part(number: int, part: Part, folder: str, level: int) -> str:
    tables = [_table(table, folder, level + 1) for table in part.tables]
    rule = f'<p class="rule">{_text(part.rule)} <cite>{_text(part.section)}</cite></p>'
    heading = f"<h{level}>{number}. {_text(part.title)}</h{level}>"
    return "\n".join([heading, rule, _items(part.items, folder), *tables])


def _items(items: tuple[Item, ...], folder: str) -> str:
    """Return the table of items, in groups by what the rules ask for."""
    demands = dict.fromkeys(item.demand for item in items)
    heads = ("Item", "Value", "Status", "How it is known", "Remark")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    bodies = [
        f'<tbody><tr><th class="group" colspan="{len(heads)}" scope="rowgroup">Asked for: {_text(demand)}</th></tr>\n'
        + "\n".join(_item(item, folder) for item in items if item.demand == demand)
        + "</tbody>"
        for demand in demands
    ]
    return (
        f'<div class="scroll"><table class="items"><thead><tr>{head}</tr></thead>\n'
        + "\n".join(bodies)
        + "</table></div>"
    )


def _item(item: Item, folder: str) -> str:
    value = "" if item.value is None else _text(say(item.value, item.unit))
    source = f', <a href="{_text(folder + item.source)}">{_path(_text(item.source))}</a>' if item.source else ""
    todo = f"To do: {item.action}." if item.action else ""
    remark = " ".join(f"{text}" for text in (_sentence(item.note), todo) if text)
    return (
        f'<tr class="{item.status}"><th scope="row">{_text(item.name)}</th><td>{value}</td>'
        f'<td class="status">{STATUS_WORDS[item.status]}</td><td>{_text(item.method)}{source}</td>'
        f"<td>{_prose(remark)}</td></tr>"
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _table(table: Table, folder: str, level: int) -> str:
    kinds = [_class([row[number] for row in table.rows]) for number in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{_text(column.name)}</th>' for column, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(*cell, folder) for cell in zip(row, table.columns, kinds, strict=True)) + "</tr>"
        for row in table.rows
    )
    heading = f"<h{level}>{_text(table.title)}</h{level}>"
    note = f'<p class="note">{_prose(table.note)}</p>\n' if table.note else ""
    body = f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    if table.folded:
        return f"<details><summary>{heading} ({len(table.rows)} rows)</summary>\n{note}{body}</details>"
    return f"{heading}\n{note}{body}"


def _class(cells: Sequence[Value | None]) -> str:
    """Return the class of a column: numbers, or texts by the longest of them."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, int | float) for cell in known):
        return ' class="number"'
    longest = max((len(str(cell)) for cell in known), default=0)
    return ' class="short"' if longest <= SHORT else ' class="text"' if longest <= LONG else ' class="long"'


def _cell(value: Value | None, column: Column, kind: str, folder: str) -> str:
    if value is None:
        return '<td class="none">–</td>'
    if column.kind == "file":
        name = str(value).rpartition("/")[2]
        return f'<td><a href="{_text(folder + str(value))}">{_text(name)}</a></td>'
    return f"<td{kind}>{_text(say(value, column.unit))}</td>"


def _judgement(document: Document, level: int) -> Iterator[str]:
    yield f"<h{level}>What the rules say</h{level}>"
    yield (
        '<p class="rule">Whether the runs are enough for a result, and what the records say about each level. '
        "What no record can tell is not judged. <cite>HPC AI500 V2.0, 4.1, 6.1, 6.2 and 6.3.2</cite></p>"
    )
    yield "<ul>" + "\n".join(f"<li>{_text(sentence)}</li>" for sentence in document.results) + "</ul>"
    if not document.levels:
        yield '<p class="none">The runs were never judged by the rules.</p>'
    for one in document.levels:
        yield _level(one, level + 1)


def _level(one: Level, level: int) -> str:
    findings = "\n".join(f"<li>{_text(finding)}</li>" for finding in one.findings)
    listed = f"<ul>{findings}</ul>" if findings else ""
    heading = one.level[0].upper() + one.level[1:]
    return f"<h{level}>{_text(heading)}: {_text(one.verdict)}</h{level}>{listed}"


def say(value: Value, unit: str) -> str:
    """Return a value with its unit, in the prefix that people use."""
    if isinstance(value, str):
        return f"{value} {unit}".strip()
    if unit == "byte":
        return say_bytes(value)
    if unit == "s":
        return say_time(value)
    if unit.startswith(("FLOP/", "B/s")) or unit == "Hz":
        return say_rate(value, unit)
    words = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return f"{words} {unit}".strip()


def _prose(text: str) -> str:
    """Return a sentence in which what stands between backticks is code, and paths go on behind a slash."""
    return CODE.sub(r"<code>\1</code>", FILE.sub(lambda path: _path(path[0]), _text(text)))


def _path(path: str) -> str:
    """Return a path, escaped before, that may go on in a new line behind a slash and nowhere else."""
    *folders, name = path.split("/")
    parts = [*(f"{folder}/" for folder in folders), *([name] if name else [])]
    return "".join(f'<span class="part">{part}</span>' for part in parts) if len(parts) > 1 else path


def _text(value: object) -> str:
    return html.escape(str(value))
