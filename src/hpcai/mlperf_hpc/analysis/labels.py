"""Short names of results for figures and tables."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

_SOFTWARE = re.compile(r"(tf|pt|ngc|mxnet|fjpytorch|pytorch|tensorflow)[\d.]*$")
_DIVISIONS = ("closed", "open")

Row = Mapping[Any, Any]


def label_results(results: pd.DataFrame) -> list[str]:
    """Return one short name per row, no two alike.

    It is made of organisation and system without what the system's name says about software and division, after ``*``
    in the open division, as in the paper. What it lacks to be unique is added: the whole name of the system, then the
    benchmark. The name of the round stands first where there is more than one.

    Parameters
    ----------
    results
        ``origin, org, system, benchmark, division``; each result once.
    """
    rows = results.to_dict("records")
    several = len(set(results["origin"])) > 1
    labels = [_label(row, shorten_system(str(row["system"])), several=several) for row in rows]
    for place in _doubles([f"{label}\n{row['benchmark']}" for label, row in zip(labels, rows, strict=True)]):
        labels[place] = _label(rows[place], str(rows[place]["system"]), several=several)
    for place in _doubles(labels):
        labels[place] = f"{labels[place]} {rows[place]['benchmark']}"
    return labels


def shorten_system(name: str) -> str:
    """Return a system's name up to the first word that names software or a division (``daint_gpu_n128_tf2.2.0``)."""
    words = name.split("_")
    kept = next((place for place, word in enumerate(words) if _is_no_machine(word)), len(words))
    return "_".join(words[: max(kept, 1)])


def _is_no_machine(word: str) -> bool:
    return word in _DIVISIONS or bool(_SOFTWARE.match(word))


def _label(row: Row, system: str, *, several: bool) -> str:
    mark = "*" if row["division"] == "open" else ""
    name = f"{mark}{row['org']} {system}"
    return f"{row['origin']} {name}" if several else name


def _doubles(names: list[str]) -> list[int]:
    counts = Counter(names)
    return [place for place, name in enumerate(names) if counts[name] > 1]
