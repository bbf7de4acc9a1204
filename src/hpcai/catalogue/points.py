"""Which columns tell the points of a study apart: one list for every table that is grouped, joined or compared."""

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd

USUAL_ENGINE: Literal["horovod"] = "horovod"
"""The engine of a point that names none: plans leave it out, and so do labels."""
SERIES = ["benchmark", "variant", "engine"]
"""A series of scales: those that are compared with each other, and whose smallest is their base."""
POINT = [*SERIES, "scale"]
"""One scale of a series. Runs of two engines never make one point."""


def engine_words(row: Mapping[Any, Any]) -> list[str]:
    """Return the engine of a row in a list of words; none for the usual one, and where none is known."""
    engine = row.get("engine", "")
    return [engine] if isinstance(engine, str) and engine not in ("", USUAL_ENGINE) else []


def label_of(row: Mapping[Any, Any]) -> str:
    """Return benchmark, variant, scale, and the engine unless it is the usual one, in one word."""
    return "/".join([*(str(row[name]) for name in ("benchmark", "variant")), *engine_words(row), str(row["scale"])])


def with_engine_in_variant(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose variants are called after their engine as well, unless it is the usual one.

    Figures group and colour by variant: a variant that was measured with two engines then makes two of everything.
    """
    if not {"variant", "engine"} <= set(table.columns):
        return table
    names = [", ".join([str(row["variant"]), *engine_words(row)]) for row in table.to_dict("records")]
    return table.assign(variant=pd.Series(names, index=table.index, dtype="object"))
