"""What tables of a results folder tell besides its runs: the machine's own numbers, and predictions of its scales.

These tables come from measurements that no record of a run holds, so they are listed as submitted and say so.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.core.table_files import read_parquet
from hpcai.listing.content import shorten, whole
from hpcai.listing.entries import Entry, MachineNumber, NotMeasured, Number, Prediction
from hpcai.listing.own_records import point_of
from hpcai.metrics.cells import Row, number_of, records_of, text_of

OVERVIEW, ACCURACY = "machine_overview", "prediction_accuracy"
MISSING = Message("own_tables.missing", "found no column {columns}, which this table has; submit the table as written")
AS_SUBMITTED = Message(
    "own_tables.as_submitted", "{method}, as submitted in the table {table}; not measured again here"
)
TRAINING = ("MLPerf HPC", "HPC AI500")
"""Lists whose rows are results of training, which are entries of their own."""
UNITS = {"FLOP/s": "flop_per_s", "B/s": "bytes_per_s", "W": "w", "FLOP/J": "flop_per_j"}
STEP = "step_s"


def read_overview(path: Path) -> dict[str, Any]:
    """Return the fields `numbers` and `not_measured` of a machine from its study; none without the table.

    Parameters
    ----------
    path
        Results folder.

    Raises
    ------
    ParseError
        If the table lacks a column.
    """
    rows = [row for row in _rows_of(path, OVERVIEW) if row["list"] not in TRAINING]
    known = [row for row in rows if number_of(row, "value") > 0 and math.isfinite(number_of(row, "value"))]
    return {
        "numbers": tuple(_machine_number(row) for row in known),
        "not_measured": tuple(
            NotMeasured(title=_title(row), reason=shorten(text_of(row["reason"]))) for row in rows if row not in known
        ),
    }


def _rows_of(path: Path, table: str) -> list[Row]:
    file = path / "tables" / f"{table}.parquet"
    if not file.is_file():
        return []
    frame = read_parquet(file)
    missing = sorted(set(columns_of(table)) - set(frame.columns))
    if missing:
        raise ParseError(at(f"tables/{file.name}", MISSING(columns=", ".join(missing))))
    return records_of(frame)


def _title(row: Row) -> str:
    words = f"{text_of(row['quantity'])}, {text_of(row['what'])}"
    return shorten(words[:1].upper() + words[1:])


def _machine_number(row: Row) -> MachineNumber:
    unit = text_of(row["unit"])
    words = re.sub(r"[^a-z0-9]+", "_", f"{text_of(row['quantity'])} {text_of(row['what'])}".lower()).strip("_")
    return MachineNumber(
        quantity=shorten(f"{words}_{UNITS.get(unit, unit.lower().replace('/', '_per_'))}"),
        unit=shorten(unit),
        value=number_of(row, "value"),
        n=whole(number_of(row, "n")),
        method=shorten(AS_SUBMITTED(method=text_of(row["method"]), table=OVERVIEW)),
        source=shorten(text_of(row["source"])),
        title=_title(row),
        rule=shorten(text_of(row["rule"])),
        setting=shorten(text_of(row["setting"])),
        remark=shorten(text_of(row["reason"])),
    )


def read_predictions(path: Path, entries: Mapping[tuple[str, ...], Entry]) -> Iterator[Prediction]:
    """Yield the predictions of measured scales from other measured scales, as the study's model made them.

    Of several models of a step, the one that the study uses counts.

    Parameters
    ----------
    path
        Results folder.
    entries
        Entries by benchmark, variant, engine and scale.

    Raises
    ------
    ParseError
        If the table lacks a column.
    """
    for row in _rows_of(path, ACCURACY):
        entry = entries.get(point_of(row))
        predicted_s, measured_s = number_of(row, "predicted_step_s"), number_of(row, "measured_step_s")
        if entry is None or row["used_for_interval"] is not True or not (0 < predicted_s < math.inf):
            continue
        words = AS_SUBMITTED(method=f"{text_of(row['method'])} by {text_of(row['cost_model'])}", table=ACCURACY)
        shared = {"quantity": STEP, "unit": "s", "source": shorten(text_of(row["source"]))}
        yield Prediction(
            entry=entry.id,
            number=Number(**shared, value=predicted_s, method=shorten(words)),
            measured=Number(
                **shared, value=measured_s, method=shorten(AS_SUBMITTED(method="measured", table=ACCURACY))
            ),
            made_from=shorten(f"{text_of(row['basis'])} ({entry.round})"),
        )
