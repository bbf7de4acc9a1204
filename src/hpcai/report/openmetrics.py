"""Runs as OpenMetrics text, for dashboards and for harnesses that search text for numbers.

Format: OpenMetrics 1.0 (prometheus/OpenMetrics, specification/OpenMetrics.md): a family has its unit as the end of its
name, its samples stand together, and ``# EOF`` ends the text. What was not measured has no sample. All families are
gauges, so that the text is valid in Prometheus's older format as well, which knows neither ``info`` nor ``stateset``
(prometheus/common, expfmt/text_parse.go) and is all that node_exporter's textfile collector reads.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from hpcai.catalogue.tables import columns_of, definitions
from hpcai.measure.publish import timed_records
from hpcai.metrics.cells import records_of
from hpcai.metrics.run_tables import collect_runs
from hpcai.records.run import Outcome

PREFIX = "hpcai_run_"
LABELS = ("run_id", "study", "benchmark", "variant", "engine", "scale", "repetition")
"""Columns that name a run, beside the folder of its results."""
FACTS = ("suite", "machine", "data_source", "started_utc", "commit", "valid_for", "reason")
"""Columns of the information about a run."""
NOT_NUMBERS = {*LABELS, "seed"}
UNITS = {
    "s": ("_s", "seconds"),
    "bytes": ("_bytes", "bytes"),
    "share": ("_ratio", "ratio"),
    "ratio": ("_ratio", "ratio"),
    "samples/s": ("_samples_per_s", "samples_per_second"),
    "B/s": ("_bytes_per_s", "bytes_per_second"),
    "FLOP/s": ("_flop_per_s", "flop_per_second"),
}
"""How each unit of a column ends the column's name, and a family's."""


def runs_as_openmetrics(folders: Sequence[Path]) -> str:
    """Return all timed runs of results folders, failed ones included.

    Each column of the table ``runs`` that holds numbers becomes a gauge, in the unit of the column.

    Raises
    ------
    ResultsError
        If a folder holds no record of a run.
    RecordError
        If a record is damaged, or a folder holds a run twice.
    """
    runs = pd.concat([_runs_of(folder) for folder in folders], ignore_index=True)
    rows = records_of(runs)
    lines = [*_info(rows), *_outcomes(rows)]
    for column in columns_of("runs", "number", "count"):
        if column not in NOT_NUMBERS:
            lines += _gauge(column, rows)
    return "\n".join([*lines, "# EOF", ""])


def _runs_of(folder: Path) -> pd.DataFrame:
    return collect_runs(timed_records(folder)).assign(results=str(folder))


def _gauge(column: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a family, if any run has a value of it."""
    values = [(row, _number(row[column])) for row in rows]
    if all(math.isnan(value) for _, value in values):
        return
    _, definition = definitions().find("runs", column)
    ending, unit = UNITS.get(definition.unit, ("", ""))
    stem = column.removesuffix(ending)
    family = f"{PREFIX}{stem}_{unit}" if unit else f"{PREFIX}{stem}"
    yield f"# TYPE {family} gauge"
    if unit:
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {_escape(_plain(definition.definition))}"
    yield from (f"{family}{_labels(row)} {value!r}" for row, value in values if not math.isnan(value))


def _info(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    family = f"{PREFIX}info"
    yield f"# TYPE {family} gauge"
    yield f"# HELP {family} What a run is and what its numbers count for; always 1."
    for row in rows:
        yield f"{family}{_labels(row, **{name: row[name] for name in FACTS})} 1"


def _outcomes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    family = f"{PREFIX}outcome"
    yield f"# TYPE {family} gauge"
    yield f"# HELP {family} How a run ended; 1 for its outcome, 0 for the others."
    for row in rows:
        for state in get_args(Outcome):
            yield f"{family}{_labels(row, **{family: state})} {int(row['outcome'] == state)}"


def _labels(row: Mapping[str, Any], **more: object) -> str:
    named = {name: row[name] for name in LABELS} | {"results": row["results"]} | more
    return "{" + ",".join(f'{name}="{_escape(_text(value))}"' for name, value in named.items()) + "}"


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _plain(text: str) -> str:
    """Return a help text without quotation marks: OpenMetrics escapes them there, the older format refuses that."""
    return text.replace('"', "'")


def _escape(text: str) -> str:
    """Return a label's value or a help text with the three characters escaped that the format escapes."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: object) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)  # type: ignore[call-overload,arg-type]
