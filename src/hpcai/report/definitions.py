"""Definitions of the columns in the report, from the catalogue of tables."""

from functools import cache

from hpcai.catalogue.definitions import Definitions
from hpcai.catalogue.tables import all_shown, definitions


@cache
def shown_definitions() -> Definitions:
    """Return the entries of all columns that the report shows."""
    return definitions().only(all_shown())


def anchor(key: str) -> str:
    """Return the id of an entry on the page."""
    return "def-" + key.replace(".", "-").replace("_", "-")
