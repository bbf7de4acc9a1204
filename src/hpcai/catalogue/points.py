"""Columns that identify a study's points: one list for every table that is grouped, joined or compared."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # every plan needs the name of the usual engine, and no table
    import pandas as pd

USUAL_ENGINE: Literal["horovod"] = "horovod"
"""The default engine of a point; plans and labels omit it."""
SERIES = ["benchmark", "variant", "engine"]
"""A series of scales, which are compared with each other; the smallest is their base."""
POINT = [*SERIES, "scale"]
"""One scale of a series. Runs of different engines never form one point."""


def engine_words(row: Mapping[Any, Any]) -> list[str]:
    """Return the engine of a row as a list; empty for the usual one, and if unknown."""
    engine = row.get("engine", "")
    return [engine] if isinstance(engine, str) and engine not in ("", USUAL_ENGINE) else []


def label_of(row: Mapping[Any, Any]) -> str:
    """Return benchmark, variant, scale, and the engine unless it is the usual one, as one word."""
    return "/".join([*(str(row[name]) for name in ("benchmark", "variant")), *engine_words(row), str(row["scale"])])


def with_engine_in_variant(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with the engine added to the variants' names, unless it is the usual one.

    Figures group and colour by variant; a variant measured with two engines then appears twice.
    """
    import pandas as pd

    if not {"variant", "engine"} <= set(table.columns):
        return table
    names = [", ".join([str(row["variant"]), *engine_words(row)]) for row in table.to_dict("records")]
    return table.assign(variant=pd.Series(names, index=table.index, dtype="object"))
