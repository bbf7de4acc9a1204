"""Input of the page: the tables and summaries of one results folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import pandas as pd

from hpcai.catalogue.definitions import Definitions
from hpcai.core.errors import ParseError
from hpcai.core.files import read_regular
from hpcai.core.sealed import unseal
from hpcai.core.table_files import read_parquet
from hpcai.report.definitions import shown_definitions

FORMS = {".html": "page", ".csv": "CSV", ".parquet": "Parquet"}
"""Available forms of a table: for browsers, spreadsheets and programs."""


@dataclass(frozen=True)
class Link:
    """Target of a link: a file next to the page."""

    words: str
    href: str
    hint: str = ""


@dataclass(frozen=True)
class Material:
    """One results folder as read.

    Attributes
    ----------
    folder, sources
        The results folder, and the project's ``reports/`` folder.
    tables
        By name; a table that was not made is missing.
    summary
        ``summary.json`` with the characterisation and the scores, as used in captions; None before the analysis.
    study
        ``study.json``: the settings that were used.
    definitions
        Definitions of the columns.
    place
        Folder of the tables and figures below the results folder, with a trailing slash; blank for the study's own. The
        summary only covers the study.
    """

    folder: Path
    sources: Path
    tables: Mapping[str, pd.DataFrame]
    summary: dict[str, Any] | None
    study: dict[str, Any] | None
    definitions: Definitions
    place: str = ""

    def table(self, name: str) -> pd.DataFrame:
        """Return a table; an empty one if it was not made."""
        return self.tables.get(name, pd.DataFrame())

    def link_file(self, path: str, words: str = "") -> Link | None:
        """Return the link to a file of this folder; None if it does not exist.

        Parameters
        ----------
        path
            As named in tables, ``results/runs/…``, or relative to the folder.
        words
            Text of the link; defaults to the last part of the path.
        """
        parts = PurePosixPath(path).parts
        relative = PurePosixPath(*parts[1:] if parts[:1] == ("results",) else parts)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts:
            return None
        target = self.folder / relative
        if not target.exists():
            return None
        end = "/" if target.is_dir() else ""
        return Link(words or relative.name + end, quote(str(relative)) + end, str(relative))

    def link_table(self, name: str) -> list[Link]:
        """Return links to the available forms of a table."""
        found = [self.link_file(f"{self.place}tables/{name}{form}", words) for form, words in FORMS.items()]
        return [link for link in found if link]


def read_material(folder: Path, sources: Path, place: str = "") -> Material:
    """Read the existing files.

    Parameters
    ----------
    folder, sources, place
        As in :class:`Material`.

    Raises
    ------
    ParseError
        If an existing file cannot be read.
    """
    return Material(
        folder=folder,
        sources=sources,
        tables={path.stem: read_parquet(path) for path in sorted((folder / place / "tables").glob("*.parquet"))},
        summary=None if place else _read_summary(folder),
        study=read_json(folder / "study.json"),
        definitions=shown_definitions(),
        place=place,
    )


def read_json(path: Path) -> Any:  # noqa: ANN401  JSON
    """Return the content of a JSON file without its seal; None if it does not exist.

    Raises
    ------
    ParseError
        If it is not JSON, or was changed since it was written.
    """
    if not path.exists():
        return None
    try:
        return json.loads(unseal(read_regular(path)).text)
    except (OSError, ValueError, RecursionError) as error:
        raise ParseError(
            f"{path}: no JSON, or a damaged one ({error}); delete it and run the workflow again"
        ) from error


def _read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary in the form that captions use: with views, scores and predictions next to the results."""
    summary = read_json(folder / "summary.json")
    if summary is None:
        return None
    parts = ("characterisation", "scoring", "prediction")
    return {**summary, **{name: read_json(folder / f"{name}.json") for name in parts}}
