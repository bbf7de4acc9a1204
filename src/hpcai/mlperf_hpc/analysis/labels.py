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
    """Return one unique short name per row.

    The name joins organisation and system, without the software and division in the system's name; ``*`` marks the open
    division, as in the paper. To make names unique, the full system name is added, then the benchmark. With several
    rounds, the name of the round comes first.

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
    """Cut a system's name before the first word that names software or a division (``daint_gpu_n128_tf2.2.0``)."""
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
