"""The downloadable archives: config/datasets.tsv."""

import csv
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hpcai.config.base import Name, Settings
from hpcai.core.errors import DatasetError
from hpcai.core.files import read_regular


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


Format = Literal["tar", "tgz", "file", "folder"]
Published = BeforeValidator(_blank_is_none)
"""A field whose blank cell means that the publisher gives no value."""


class Archive(Settings):
    """One row of datasets.tsv."""

    dataset: Name
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$")
    url: str = Field(pattern=r"^https?://[^\s]+$")
    bytes: Annotated[Annotated[int, Field(gt=0)] | None, Published] = None
    checksum_algorithm: Annotated[Literal["md5", "sha1", "sha256", "sha512"] | None, Published] = None
    checksum: Annotated[Annotated[str, Field(pattern=r"^[0-9a-f]{32,128}$")] | None, Published] = None
    format: Format = Field(
        description="file: a sample file as it is; folder: cannot be downloaded by this program, see the note."
    )
    note: str = ""

    @model_validator(mode="after")
    def _checksum_has_its_algorithm(self) -> "Archive":
        if (self.checksum is None) != (self.checksum_algorithm is None):
            raise ValueError("checksum and checksum_algorithm must both be given or both be blank")
        return self


def read_catalogue(path: Path) -> dict[str, Archive]:
    """Read datasets.tsv.

    Parameters
    ----------
    path
        Tab-separated table with the fields of `Archive` as columns.

    Raises
    ------
    DatasetError
        Names the line and column of the error.
    """
    try:
        lines = read_regular(path).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}), expected the table of datasets") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: found invalid UTF-8 at byte {error.start}; save the table as UTF-8") from error
    try:
        return _read_archives(path, lines)
    except csv.Error as error:
        raise DatasetError(f"{path}: found a line that is not part of a table ({error}); correct the table") from error


def _read_archives(path: Path, lines: list[str]) -> dict[str, Archive]:
    archives: dict[str, Archive] = {}
    expected = list(Archive.model_fields)
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    if list(rows.fieldnames or []) != expected:
        raise DatasetError(f"{path}: line 1: found columns {rows.fieldnames}, expected {expected}; correct the table")
    for number, row in enumerate(rows, start=2):
        try:
            archive = Archive.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "row"
            raise DatasetError(
                f"{path}: line {number}: {place}: found {first['input']!r}, expected otherwise ({first['msg']}); "
                "correct the table"
            ) from None
        if archive.dataset in archives:
            raise DatasetError(f"{path}: line {number}: found {archive.dataset!r} twice, expected it once")
        archives[archive.dataset] = archive
    return archives
