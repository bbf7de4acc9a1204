"""The report documents of HPC AI500 V2.0 as sections of the page."""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from hpcai.report.hpc_ai500.markup import document_html
from hpcai.report.hpc_ai500.model import read_document
from hpcai.report.material import Link, Material


@dataclass(frozen=True)
class DocumentPart:
    """One document: its benchmark, whether it is complete, its fragment, and the folder to hand in."""

    benchmark: str
    headline: str
    fragment: Markup
    files: tuple[Link, ...]


def make_documents(material: Material) -> tuple[DocumentPart, ...]:
    """Return the documents of all benchmarks that have one, in the order of their names."""
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
        fragment=Markup(document_html(document, folder=f"{folder}/")),  # noqa: S704
        files=tuple(link for link in links if link),
    )
