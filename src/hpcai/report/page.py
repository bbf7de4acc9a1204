"""The HTML report: a single file with the measurements, the results and their validity."""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hpcai.catalogue.definitions import Definition
from hpcai.core.files import write_atomically
from hpcai.core.limits import MOST_LINES
from hpcai.core.messages import Message
from hpcai.core.text import say_whole
from hpcai.plots.interactive import chart_library
from hpcai.records.acceptance import Accepted
from hpcai.report.answer import choose_advice, make_answer, make_banner, say_dates
from hpcai.report.captions import write_captions
from hpcai.report.definitions import anchor
from hpcai.report.embedding import say_plainly
from hpcai.report.figures import Figure, make_figure
from hpcai.report.hpc_ai500.excerpt import shorten
from hpcai.report.hpc_ai500.markup import FRAGMENT_STYLE, document_html
from hpcai.report.hpc_ai500.model import read_document
from hpcai.report.material import Link, Material, read_material
from hpcai.report.provenance import make_failures, make_folders, make_runs, say_commands
from hpcai.report.questions import make_questions
from hpcai.report.section_specs import FigureSpec, SectionSpec
from hpcai.report.sections import ACCEPTANCE_SECTIONS, DEVICE_SECTIONS, ROUND_SECTIONS, SECTIONS
from hpcai.report.tables import Table, TableSpec, make_table, spec_of

NO_ANSWER = Message("page.no_answer", "There are no results yet: no run has been recorded.")


@dataclass(frozen=True)
class DocumentPart:
    """One document: its benchmark, whether it is complete, its fragment, and the folder to submit."""

    benchmark: str
    headline: str
    fragment: Markup
    files: tuple[Link, ...]


def make_documents(material: Material) -> tuple[DocumentPart, ...]:
    """Return the documents of all benchmarks that have one, sorted by name."""
    paths = sorted((material.folder / "hpc_ai500").glob("*/report.json"))
    return tuple(_make_document(material, path) for path in paths)


def _make_document(material: Material, path: Path) -> DocumentPart:
    document = read_document(path)
    folder = f"hpc_ai500/{path.parent.name}"
    links = [material.link_file(folder)]
    links += [material.link_file(f"{folder}/{name}") for name in ("report.html",)]
    return DocumentPart(
        benchmark=document.benchmark,
        headline=document.headline,
        # document_html escapes every text of the document.
        fragment=Markup(document_html(shorten(document), folder=f"{folder}/")),  # noqa: S704
        files=tuple(link for link in links if link),
    )


KEY_FIGURES = ("scores", "roofline", "scaling")
"""The figures shown small on the first screen."""


@dataclass(frozen=True)
class Section:
    """Template data of a section: its figures and tables in order, or why it has none."""

    anchor: str
    title: str
    question: str
    level: int
    parts: tuple[Figure | Table, ...]
    absent: str = ""


def write_report(results: Path, sources: Path, output: Path, captions: Iterable[Path] = ()) -> None:
    """Write the report of one results folder as one self-contained HTML file.

    Equal folders give equal bytes. The page lists everything that the folder lacks.

    Parameters
    ----------
    results
        Folder with ``tables/*.parquet``, ``figures/*.svg`` and ``*.json``, ``summary.json``, ``characterisation.json``,
        ``scoring.json``, ``prediction.json``, ``hpc_ai500/BENCHMARK/report.json`` and ``study.json``, as far as
        available.
    sources
        The project's ``reports/`` folder: ``page/`` and ``captions/``.
    output
        The file to write. Its links are relative to the results folder, so it belongs there.
    captions
        Captions of Snakemake's report to write as well (:func:`hpcai.report.captions.write_captions`).

    Raises
    ------
    ParseError
        If a file of the results folder cannot be read.
    """
    material = read_material(results, sources)
    page = _environment(sources).get_template("report.html.j2").render(make_context(material))
    write_atomically(output, page.encode("utf-8"))
    write_captions(material, captions)


def write_rounds_page(results: Path, place: str, sources: Path, output: Path) -> None:
    """Write the sections on MLPerf HPC rounds as a separate page, for rounds without a study.

    Parameters
    ----------
    results, sources, output
        As for :func:`write_report`.
    place
        Folder of tables and figures below the results folder, with a trailing slash.

    Raises
    ------
    ParseError
        If a file cannot be read.
    """
    material = read_material(results, sources, place)
    runs = material.table("mlperf_runs")
    facts = {"origins": sorted(runs["origin"].unique()) if "mlperf_runs" in material.tables else []}
    _write_own_page(material, ROUND_SECTIONS, "rounds.html.j2", facts, output)


def write_device_page(results: Path, place: str, sources: Path, output: Path) -> None:
    """Write the page on one device; parameters and errors as for :func:`write_rounds_page`."""
    material = read_material(results, sources, place)
    steps = material.table("gpu_steps")
    devices = sorted({str(device) for device in steps.get("device", ()) if device})
    kind = str(steps["device_kind"].iloc[0]) if len(steps) else ""
    _write_own_page(material, DEVICE_SECTIONS, "gpu.html.j2", {"devices": devices, "kind": kind}, output)


def write_acceptance_page(accepted: Accepted, results: Path, place: str, sources: Path, output: Path) -> None:
    """Write the page on the acceptance of a machine; other parameters and errors as for :func:`write_rounds_page`."""
    material = read_material(results, sources, place)
    _write_own_page(material, ACCEPTANCE_SECTIONS, "acceptance.html.j2", {"accepted": accepted}, output)


def _write_own_page(
    material: Material, specs: Iterable[SectionSpec], template: str, facts: dict[str, Any], output: Path
) -> None:
    """Write some sections as a separate page, with the definitions of its columns."""
    sections = tuple(_make_section(material, spec) for spec in specs)
    shown = {
        heading.anchor
        for section in sections
        for part in section.parts
        if isinstance(part, Table)
        for heading in part.headings
    }
    definitions = [entry for entry in _list_definitions(material) if entry[0] in shown]
    context = {**_frame_page(material, sections), **facts, "definitions": definitions}
    page = _environment(material.sources).get_template(template).render(context)
    write_atomically(output, page.encode("utf-8"))


def make_context(material: Material) -> dict[str, Any]:
    """Return the template data of a study's page."""
    made = tuple(_make_section(material, spec) for spec in SECTIONS)
    figures = {part.name: part for section in made for part in section.parts if isinstance(part, Figure)}
    summary = material.summary
    settings = material.study or {}
    # Each of them is on the page once.
    leading = [figures[name] for name in settings.get("show_first", ()) if name in figures]
    return {
        **_frame_page(material, made),
        "sections": tuple(replace(one, parts=tuple(p for p in one.parts if p not in leading)) for one in made),
        "leading": leading,
        "corresponds_to": settings.get("corresponds_to", ""),
        "summary": summary,
        "study": material.study,
        "banner": make_banner(summary),
        "dates": say_dates(summary) if summary else "",
        "answer": _make_answer(material),
        "questions": make_questions(material),
        "advice": choose_advice(material),
        "key_figures": [figures[name] for name in KEY_FIGURES if name in figures and figures[name].picture],
        "documents": make_documents(material),
        "failures": make_table(material, spec_of("failures"), make_failures(material)),
        "runs": make_table(material, spec_of("runs"), make_runs(material)),
        "captures": make_table(material, spec_of("captures")),
        "folders": make_folders(material),
        "commands": say_commands(material.study, summary["commits"] if summary else ()),
        "definitions": _list_definitions(material),
        "most_lines": MOST_LINES,
    }


def _list_definitions(material: Material) -> list[tuple[str, str, Definition]]:
    """Return id, key and entry of every definition, sorted by title."""
    return sorted(
        ((anchor(key), key, entry) for key, entry in material.definitions.entries.items()),
        key=lambda item: (item[2].title.lower(), item[1]),
    )


def _frame_page(material: Material, sections: tuple[Section, ...]) -> dict[str, Any]:
    """Return the sections, with the styles and scripts of every page."""
    figures = [part for section in sections for part in section.parts if isinstance(part, Figure)]
    scripts = {
        "theme": _read(material.sources, "theme.js"),
        "main": "".join(_read(material.sources, name) for name in ("theme_button.js", "charts.js", "report.js")),
        "bundle": chart_library() if any(figure.specification for figure in figures) else "",
    }
    return {
        "sections": sections,
        "stylesheet": Markup(_read(material.sources, "report.css") + FRAGMENT_STYLE),  # noqa: S704  our own file
        "scripts": {name: Markup(text) for name, text in scripts.items()},  # noqa: S704  our own files
        "allowed": " ".join(hash_script(text) for text in scripts.values() if text),
    }


def hash_script(text: str) -> str:
    """Return the source expression that makes a content security policy allow only this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"


def _make_answer(material: Material) -> Table:
    table = make_table(material, spec_of("answer"), make_answer(material))
    return replace(table, missing=NO_ANSWER())


def _make_section(material: Material, spec: SectionSpec) -> Section:
    tables = [material.table(part.name) for part in spec.parts if isinstance(part, TableSpec)]
    is_made = any(part.name in material.tables for part in spec.parts if isinstance(part, TableSpec))
    absent = spec.absent if is_made or not spec.unmade else spec.unmade
    if absent and all(table.empty for table in tables):
        return Section(spec.anchor, spec.title, spec.question, spec.level, (), absent)
    drawn = {part.name for part in spec.parts if isinstance(part, FigureSpec)}
    parts = tuple(
        make_figure(material, part.name, part.title, part.tables)
        if isinstance(part, FigureSpec)
        else make_table(material, part, captioned=part.name not in drawn)
        for part in spec.parts
    )
    return Section(spec.anchor, spec.title, spec.question, spec.level, parts)


def _read(sources: Path, name: str) -> str:
    return (sources / "page" / name).read_text(encoding="utf-8")


def _environment(sources: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(sources / "page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=say_plainly,
    )
    environment.filters["whole"] = say_whole
    environment.tests["figure"] = lambda part: isinstance(part, Figure)
    return environment
