"""Tables of predictions: points of the joined curves, predicted configurations, and leave-one-out errors."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.analysis.curve_model import LEVEL_RATIO, Mixture, interval_of
from hpcai.mlperf_hpc.analysis.leave_one_out import leave_one_out, summarise_errors
from hpcai.mlperf_hpc.analysis.prediction import FEWEST_POINTS, Configuration, JoinedCurves, Prediction, join_curves
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet, point_sets

CURVE_COLUMNS = columns_of("mlperf_curves")
"""Table ``mlperf_curves``: points of the fitted curves, for an organisation without a submission.

``kind`` is "epochs" (over the global batch, of all families), "epoch_time" (over units, per family, at one sample per
unit) or "reference" (not a curve: a reference convergence point used by the curve of epochs).
``extrapolated`` marks points outside the published ones. Bounds hold with ``level_ratio``.
"""
PREDICTION_COLUMNS = columns_of("mlperf_predictions")
"""Table ``mlperf_predictions``: medians and bounds per machine at powers of two of its units.

``ran`` marks configurations of existing submissions. Without a prediction, ``reason`` gives the cause.
``staging_s`` counts staging on the clock. It is NaN where the machine's submissions do not log staging, which is
then part of ``extra_s`` and noted in ``basis``.
"""
CURVE_POINTS = 25
"""Points of one curve, evenly spaced on a logarithmic axis."""
BEYOND_RATIO = 2.0
"""Factor by which curves and tables of predictions extend beyond the published points."""


def prediction_tables(
    results: pd.DataFrame, systems: pd.DataFrame, references: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """Return all tables of predictions by name; parameters as in :func:`prediction_points.point_sets`."""
    sets = list(point_sets(results, systems, references))
    errors = leave_one_out(sets)
    return {
        "mlperf_curves": trace_curves(sets),
        "mlperf_predictions": predict_table(sets),
        "mlperf_leave_one_out": errors,
        "mlperf_prediction_errors": summarise_errors(errors),
    }


def trace_curves(sets: Sequence[PointSet]) -> pd.DataFrame:
    """Return points of all curves: table ``mlperf_curves``. Editions with a single submission have none."""
    rows = [row for points in sets if len(points.usable) >= FEWEST_POINTS for row in _curves_of(points)]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def predict_table(sets: Sequence[PointSet]) -> pd.DataFrame:
    """Predict every machine at powers of two of its units: table ``mlperf_predictions``."""
    rows = [row for points in sets if len(points.usable) for row in _predictions_of(points)]
    return pd.DataFrame(rows, columns=list(PREDICTION_COLUMNS))


def prediction_row(points: PointSet, prediction: Prediction) -> dict[str, Any]:
    """Return one prediction as a row of the table ``mlperf_predictions``."""
    wanted = prediction.configuration
    usable = points.usable
    same = (
        (usable["machine"] == points.machine_of(wanted.organisation, wanted.family))
        & (usable["units"] == wanted.units)
        & (usable["global_batch_samples"] == wanted.batch_samples)
    )
    row: dict[str, Any] = {
        "benchmark": points.benchmark, "edition": points.edition, "org": wanted.organisation, "family": wanted.family,
        "units": wanted.units, "global_batch_samples": wanted.batch_samples, "ran": bool(same.any()),
        "level_ratio": LEVEL_RATIO, "extrapolated": prediction.extrapolated, "basis": prediction.basis,
        "reason": prediction.reason,
    }  # fmt: skip
    parts = {
        "run": prediction.run_s, "compute": prediction.compute_s, "staging": prediction.staging_s,
        "extra": prediction.extra_s, "epochs": prediction.epochs, "epoch": prediction.epoch_s,
    }  # fmt: skip
    for name, value in parts.items():
        unit = "" if name == "epochs" else "_s"
        row |= {f"{name}{unit}": value.middle, f"{name}_low{unit}": value.low, f"{name}_high{unit}": value.high}
    return row | _origin_of(points)


def samples_per_unit(points: PointSet, organisation: str, family: str) -> float:
    """Return a machine's median samples of a global batch per unit; below 1 where units share samples.

    Falls back to the machine's family, then to all submissions.
    """
    usable = points.usable
    choices = (_own(points, organisation, family), usable[usable["family"] == family], usable)
    own = next(choice for choice in choices if len(choice))
    return float((own["global_batch_samples"].astype(float) / own["units"].astype(float)).median())


def powers_of_two(points: PointSet, organisation: str, family: str) -> list[Configuration]:
    """Return a machine's configurations at powers of two, from half to twice the units of its submissions.

    The batch grows with the units (:func:`samples_per_unit`).
    """
    units = _own(points, organisation, family)["units"].astype(float)
    first = math.ceil(math.log2(float(units.min()) / BEYOND_RATIO))
    last = math.floor(math.log2(float(units.max()) * BEYOND_RATIO))
    counts = [2**power for power in range(max(first, 0), last + 1)]
    return [configure(points, organisation, family, count) for count in counts]


def configure(points: PointSet, organisation: str, family: str, units: int) -> Configuration:
    """Return a configuration with the usual samples per unit (:func:`samples_per_unit`)."""
    return Configuration(
        organisation, family, units, max(round(units * samples_per_unit(points, organisation, family)), 1)
    )


def _own(points: PointSet, organisation: str, family: str) -> pd.DataFrame:
    return points.usable[points.usable["machine"] == points.machine_of(organisation, family)]


def _predictions_of(points: PointSet) -> Iterator[dict[str, Any]]:
    curves = join_curves(points)
    machines = points.usable.drop_duplicates("machine").sort_values(["org", "family"])
    for organisation, family in zip(machines["org"].astype(str), machines["family"].astype(str), strict=True):
        for wanted in powers_of_two(points, organisation, family):
            yield prediction_row(points, curves.predict(wanted))


def _curves_of(points: PointSet) -> Iterator[dict[str, Any]]:
    curves = join_curves(points)
    batches = points.batches_samples
    common = {"benchmark": points.benchmark, "edition": points.edition, "level_ratio": LEVEL_RATIO} | _origin_of(points)
    for batch in _axis(batches):
        low, middle, high = _bounds(curves.epochs.predict(batch, ""))
        yield common | {
            "kind": "epochs", "family": "", "global_batch_samples": batch, "units": math.nan,
            "epochs": middle, "epochs_low": low, "epochs_high": high, "extrapolated": _outside(batch, batches),
        }  # fmt: skip
    for row in points.references.to_dict("records"):
        yield common | {name: row[name] for name in ("global_batch_samples", "epochs", "source")} | {
            "kind": "reference", "family": "", "units": math.nan, "extrapolated": False, "origin": str(row["org"]),
            "method": "published",
        }  # fmt: skip
    for family, own in points.usable.groupby("family", sort=True):
        yield from (common | row for row in _epoch_time_rows(curves, str(family), own))


def _epoch_time_rows(curves: JoinedCurves, family: str, own: pd.DataFrame) -> Iterator[dict[str, Any]]:
    workers = own[["units", "global_batch_samples"]].astype(float).min(axis=1)
    for units in _axis(workers):
        low, middle, high = _bounds(curves.epoch_time.predict(units, units, family, ""))
        yield {
            "kind": "epoch_time", "family": family, "units": units, "global_batch_samples": units,
            "epoch_s": middle, "epoch_low_s": low, "epoch_high_s": high, "extrapolated": _outside(units, workers),
        }  # fmt: skip


def _bounds(logarithm: Mixture) -> tuple[float, float, float]:
    return interval_of(np.exp(logarithm.draw(0)))


def _axis(known: pd.Series) -> list[float]:
    low, high = max(float(known.min()) / BEYOND_RATIO, 1.0), float(known.max()) * BEYOND_RATIO
    return [float(value) for value in np.geomspace(low, high, CURVE_POINTS)]


def _outside(value: float, known: pd.Series) -> bool:
    return not bool(known.min() * (1 - 1e-9) <= value <= known.max() * (1 + 1e-9))


def _origin_of(points: PointSet) -> dict[str, str]:
    origins = ", ".join(sorted(set(points.usable["origin"].astype(str))))
    references = f"; {points.references['source'].str.split(':').iloc[0][0]}" if len(points.references) else ""
    return {
        "origin": origins,
        "method": "modelled",
        "source": f"mlperf_results: {len(points.usable)} submissions of {origins}{references}",
    }
