"""Write the reference from the code: `python docs/generate.py` fills docs/reference/generated/ (`make docs` does it).

It needs the project's environment; nothing here is a fact of its own.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from code_pages import api, commands, package_page, packages
from markdown_text import Schema, code_spans, escaped, heading, row, value_of

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs/reference/generated"
BESIDES = ("equation", "method", "source")
"""What a definition may say besides what a column is."""
PATHS = {
    "Study": "study.yaml",
    "Machine": "machines/NAME.yaml",
    "RunRow": "runs/NAME.tsv",
    "WeakRow": "runs/NAME.tsv of weak_runs",
    "Published": "published/NAME.yaml",
}
"""Files of the configuration folder, by the name of their model; all others are benchmarks."""


def write_pages(folder: Path) -> None:
    """Write all pages, and remove those of what is no more."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: page() for name, page in PAGES.items()}
    pages.update((f"api-{package}", package_page(package, files)) for package, files in packages().items())
    for name, lines in pages.items():
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for page in folder.glob("*.md"):
        if page.stem not in pages:
            page.unlink()


def configuration() -> Iterator[str]:
    """Yield every kind of configuration file and then every section, with its keys."""
    from hpcai.config.schema import FILES

    definitions: Mapping[str, Schema] = json.loads((ROOT / "config/schema.json").read_text(encoding="utf-8"))["$defs"]
    files = [model.__name__ for model in FILES]
    yield from (
        "# Configuration",
        "",
        "Every key of every configuration file, from `config/schema.json`. A study begins with",
    )
    yield from ("[Study](#study); these are the kinds of files:", "", *heading("file", "keys"))
    for name in files:
        yield row(f"`{PATHS.get(name, 'benchmarks/NAME.yaml')}`", f"[{name}](#{name.lower()})")
    for name in (*files, *sorted(definitions.keys() - set(files))):
        yield from ("", f"## {name}", "", code_spans(definitions[name].get("description", "")), "")
        if properties := definitions[name].get("properties", {}):
            yield from heading("key", "value", "default", "meaning")
        for key, schema in properties.items():
            needed = key in definitions[name].get("required", ())
            default = "required" if needed else f"`{json.dumps(schema.get('default'), ensure_ascii=False)}`"
            yield row(f"`{key}`", value_of(schema), default, code_spans(schema.get("description", "")))


def tables() -> Iterator[str]:
    """Yield every table of the catalogue: what a row is, where the report shows it, and its columns."""
    from hpcai.catalogue import tables as catalogue
    from hpcai.report.sections import ACCEPTANCE_SECTIONS, DEVICE_SECTIONS, SECTIONS

    titles = {section.anchor: section.title for section in (*SECTIONS, *DEVICE_SECTIONS, *ACCEPTANCE_SECTIONS)}
    yield from ("# Tables and columns", "", "Every table and column, from `src/hpcai/catalogue/`; units end the names.")
    yield from ("The files are `results/tables/NAME.csv` and `NAME.parquet`, with the columns in this order.", "")
    for name, table in sorted(catalogue.tables().items()):
        sections = dict.fromkeys(titles[one.section] for one in table.shown if one.section)
        yield from (f"## {name}", "", f"A row: {escaped(table.rows[0].lower() + table.rows[1:])}", "")
        yield from (f"The report shows it in: {', '.join(sections)}.", "") if sections else ()
        yield from heading("column", "type", "unit", "meaning")
        for column in table.columns:
            entry = catalogue.definitions().find(name, column)[1]
            besides = [f"*{word}:* {escaped(getattr(entry, word))}" for word in BESIDES if getattr(entry, word)]
            meaning = "<br>".join([escaped(entry.definition), *besides])
            yield row(f"`{column}`", entry.type, escaped(entry.unit), meaning)
        yield ""


def rules() -> Iterator[str]:
    """Yield every rule of every suite."""
    from hpcai.rules.table import SUITES, rules_of

    yield from (
        "# Rules of the suites",
        "",
        "From the tables in `src/hpcai/rules/`; `hpcai rules` prints the same.",
        "",
    )
    for table in map(rules_of, SUITES):
        yield from (f"## {table.title}", "", escaped(table.edition), "")
        for name, topic in table.topics.items():
            freedom = ", ".join(f"{level} {how}" for level, how in topic.levels.items())
            yield from (
                f"### {table.title}: {topic.title}",
                "",
                f"{escaped(topic.sentence)} ({freedom}; {topic.section})",
                "",
            )
            kept = [rule for rule in table.rules if rule.topic == name]
            yield from heading("rule", "binds", "what it says", "judged by") if kept else ()
            for rule in kept:
                judged = "; ".join(f"`{path}`: {escaped(need.words)}" for path, need in rule.settings.items())
                unjudged = f"never kept here: {escaped(rule.declared)}" if rule.declared else "stated only"
                whom = ", ".join((*rule.binds, *rule.workloads))
                says = f"{escaped(rule.sentence)} ({escaped(rule.section)})"
                yield row(f"`{rule.id}`", whom, says, judged or unjudged)
            yield ""


PAGES = {"configuration": configuration, "tables": tables, "rules": rules, "commands": commands, "api": api}

if __name__ == "__main__":
    write_pages(OUTPUT)
