"""Write pages, their scripts and their data: Jinja templates, and files that a page loads without a server."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from hpcai.core.files import write_atomically
from hpcai.plots.interactive import chart_library
from hpcai.report.embedding import embed_json, say_plainly

ASSETS = "assets"
SCRIPTS = ("site.js", "list.js", "compare.js", "statistics.js", "figures.js", "icon.svg")
SHARED_SCRIPTS = ("theme.js", "theme_button.js", "charts.js")
"""Scripts that the report has as well."""
TABLE_LIBRARY = ("table-core.js", "table-core.LICENSE.txt")
"""TanStack Table, as its package has it: `vendor/README.md` names version and digest."""
CHART_LIBRARY, CHART_LICENSE = "vega.js", "vega.LICENSE.txt"


@dataclass(frozen=True)
class Site:
    """A folder of pages with one frame.

    Attributes
    ----------
    folder
        Folder to write.
    sources
        The project's ``reports/`` folder.
    frame
        What every page shows: title, edition, menu, links.
    written
        Paths below the folder that were written, without the assets of all pages.
    """

    folder: Path
    sources: Path
    frame: Mapping[str, Any] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    @cached_property
    def _templates(self) -> dict[str, Template]:
        environment = Environment(
            loader=FileSystemLoader(self.sources / "list"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            finalize=_finalize,
        )
        return {name: environment.get_template(f"{name}.html.j2") for name in PAGE_TEMPLATES}

    def write_page(self, place: str, template: str, view: Mapping[str, Any]) -> None:
        """Write one page.

        Parameters
        ----------
        place
            Path below the folder, with slashes.
        template
            One of :data:`PAGE_TEMPLATES`.
        view
            What the template shows.
        """
        root = "../" * place.count("/")
        text = self._templates[template].render(site=self.frame, root=root, here=place, view=view)
        self._write(place, text)

    def write_data(self, place: str, before: str, data: object) -> None:
        """Write data as a script, which a page may load from a file as well: ``before = data;``."""
        self._write(place, f"{before} = {_embed(data)};\n")

    def write_call(self, place: str, function: str, data: object) -> None:
        """Write data as a script that gives them to a function."""
        self._write(place, f"{function}({_embed(data)});\n")

    def write_text(self, place: str, text: str) -> None:
        """Write any other file."""
        self._write(place, text)

    def write_assets(self) -> None:
        """Write the scripts and styles of all pages, with the licence of what is not ours."""
        folder = self.folder / ASSETS
        folder.mkdir(parents=True, exist_ok=True)
        page, own = self.sources / "page", self.sources / "list"
        vendor = own / "vendor"
        copied = ((page, SHARED_SCRIPTS), (own, SCRIPTS), (vendor, (*TABLE_LIBRARY, CHART_LICENSE)))
        for source, name in ((source, name) for source, names in copied for name in names):
            shutil.copyfile(source / name, folder / name)
        _write_chart_library(folder / CHART_LIBRARY)
        styles = "".join((part / name).read_text("utf-8") for part, name in ((page, "report.css"), (own, "list.css")))
        write_atomically(folder / "list.css", styles.encode())

    def _write(self, place: str, text: str) -> None:
        self.written.add(place)
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode("utf-8"))


def _write_chart_library(path: Path) -> None:
    """Write the charts' library unless it is there: to bundle it takes seconds."""
    seal = f"// Vega-Embed with Vega and Vega-Lite, bundled by vl-convert-python {version('vl-convert-python')}\n"
    with suppress(FileNotFoundError), path.open("rb") as known:
        if known.readline() == seal.encode():
            return
    write_atomically(path, (seal + chart_library()).encode())


def _embed(data: object) -> str:
    """Return data as JSON for a script, without unprintable characters.

    To look at the JSON is a hundred times faster than to look at each text in the data; JSON writes control characters
    as escapes.
    """
    found = embed_json(data)
    return found if found.isprintable() and "\\" not in found else embed_json(_plainly(data))


def _plainly(data: Any) -> Any:  # noqa: ANN401  JSON
    """Return data whose texts have no unprintable characters: a mark of direction would turn numbers round."""
    if isinstance(data, str):
        return _finalize(data)
    if isinstance(data, Mapping):
        return {key: _plainly(value) for key, value in data.items()}
    return [_plainly(value) for value in data] if isinstance(data, list | tuple) else data


def _finalize(value: object) -> object:
    """Return a text without unprintable characters; nearly all texts have none, and ten thousand pages have many."""
    return value if isinstance(value, str) and value.isprintable() else say_plainly(value)


PAGE_TEMPLATES = ("index", "list", "result", "place", "page", "compare")
