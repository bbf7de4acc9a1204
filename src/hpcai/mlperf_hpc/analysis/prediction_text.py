"""``hpcai mlperf predict``: time to solution of a configuration without a run, and the error of such predictions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.core.errors import ConfigError
from hpcai.core.text import say_share, say_short

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.mlperf_hpc.analysis.prediction_points import PointSet
    from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound

PARTS = (
    ("time to solution", "run", "_s"),
    ("epochs", "epochs", ""),
    ("epoch time", "epoch", "_s"),
    ("compute", "compute", "_s"),
    ("staging in run", "staging", "_s"),
    ("extra", "extra", "_s"),
)
"""Label, name and unit of the printed values, the total first."""
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Question:
    """Configuration whose time to solution is requested.

    Attributes
    ----------
    sources
        Rounds, as :func:`hpcai.mlperf_hpc.rounds.reading.read_round` takes them.
    benchmark
        A benchmark of the rounds.
    system
        A submission, ``ORG/SYSTEM``, on the machine.
    units
        Accelerators; None: powers of two.
    batch
        Global batch in samples; None: the machine's samples per unit.
    """

    sources: Sequence[Path]
    benchmark: str
    system: str
    units: int | None = None
    batch: int | None = None


def print_predictions(question: Question) -> dict[str, Any]:
    """Print the predictions and their error; return both as plain values.

    Raises
    ------
    ConfigError
        If the benchmark or system has no submission with a time, or no configuration can be predicted.
    """
    from hpcai.mlperf_hpc.analysis.leave_one_out import leave_one_out, summarise_errors
    from hpcai.mlperf_hpc.analysis.prediction import join_curves
    from hpcai.mlperf_hpc.analysis.prediction_tables import prediction_row

    if question.batch is not None and question.units is None:
        raise ConfigError("--batch: found it without --units, expected both: give the number of units as well")
    points = _find_points(question.sources, question.benchmark, question.system)
    wanted = _configurations(points, question)
    curves = join_curves(points)
    rows = [prediction_row(points, curves.predict(one)) for one in wanted]
    if question.units is not None and rows[0]["reason"]:
        raise ConfigError(f"{question.system}: cannot be predicted: {rows[0]['reason']}")
    said = say_predictions(rows, one=question.units is not None)
    if all(row["reason"] for row in rows):
        print("\n".join(said))
        raise ConfigError(f"{question.system}: none of its {len(rows)} configurations can be predicted, see above")
    errors = leave_one_out([points])
    summary = summarise_errors(errors).to_dict("records")[0]
    print("\n".join([*said, _say_errors(summary, len(points.references))]))
    plain: dict[str, Any] = plain_values(
        {"predictions": rows, "prediction_errors": summary, "leave_one_out": errors.to_dict("records")}
    )
    return plain


def _find_points(sources: Sequence[Path], benchmark: str, system: str) -> "PointSet":
    """Read the sources and return the edition of the benchmark that the system submitted."""
    import pandas as pd

    from hpcai.mlperf_hpc.analysis.prediction_points import point_sets
    from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
    from hpcai.mlperf_hpc.analysis.system_families import system_table
    from hpcai.mlperf_hpc.analysis.tables import result_table, run_table

    rounds = read_unchecked(sources)
    results = result_table(run_table(rounds))
    sets = list(point_sets(results, system_table(one.round for one in rounds), read_reference_epochs()))
    own = [points for points in sets if points.benchmark == benchmark]
    if not own:
        found = ", ".join(sorted({points.benchmark for points in sets})) or "none with strong scaling"
        raise ConfigError(f"--benchmark: found {benchmark!r}, expected one of the sources' benchmarks: {found}")
    if not any(len(points.usable) for points in own):
        raise ConfigError(f"--benchmark: {_say_none_usable(pd.concat([points.submissions for points in own]))}")
    named = [points for points in own if (points.usable["submission"] == system).any()]
    if not named:
        known = sorted({str(name) for points in own for name in points.usable["submission"]})
        raise ConfigError(
            f"--system: found {system!r}, expected a submission with a time for {benchmark}: {', '.join(known)}"
        )
    if len(named) > 1:
        editions = " and ".join(points.edition for points in named)
        raise ConfigError(f"--system: {system} has submissions of {editions}: name only the sources of one of them")
    return named[0]


def read_unchecked(sources: Sequence[Path]) -> "list[CheckedRound]":
    """Read rounds without checking their logs: predictions do not use verdicts, and checking takes most of the time."""
    from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
    from hpcai.mlperf_hpc.compliance.choose import Choice
    from hpcai.mlperf_hpc.rounds.reading import read_round

    rounds = [CheckedRound(read_round(source), Choice("", "no log is checked"), {}) for source in sources]
    names = [one.round.name for one in rounds]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"found several sources of the name {', '.join(twice)}, expected each round once")
    return rounds


def _say_none_usable(submissions: "pd.DataFrame") -> str:
    """Explain why no submission of a benchmark can be used for predictions."""
    pairs = zip(submissions["submission"].astype(str), submissions["unusable"].astype(str), strict=True)
    return (
        f"no submission of {submissions['benchmark'].iloc[0]} has all that a prediction needs, expected runs with "
        f"times, epochs and settings: {'; '.join(f'{name} {lacks}' for name, lacks in pairs)}"
    )


def _configurations(points: "PointSet", question: Question) -> list[Any]:
    from hpcai.mlperf_hpc.analysis.prediction import Configuration
    from hpcai.mlperf_hpc.analysis.prediction_tables import configure, powers_of_two

    usable = points.usable
    row = usable[usable["submission"] == question.system].iloc[0]
    organisation, family = str(row["org"]), str(row["family"])
    if question.units is None:
        return powers_of_two(points, organisation, family)
    if question.batch is None:
        return [configure(points, organisation, family, question.units)]
    return [Configuration(organisation, family, question.units, question.batch)]


def say_predictions(rows: Sequence[Row], *, one: bool, when: str = "") -> list[str]:
    """Format one prediction with its parts, or several as a table; ``when`` follows the machine's name."""
    first = rows[0]
    title = f"{first['benchmark']} ({first['edition']}) on {first['org']} {first['family']}{when}".replace(
        "on  ", "on "
    )
    if one:
        head = f"{title}, {first['units']} units, global batch {first['global_batch_samples']}, predicted:"
        note = [f"  outside the published points: {first['extrapolated']}"] if first["extrapolated"] else []
        return [head, *(_say_part(first, *part) for part in PARTS), *note, f"  stands on {first['basis']}"]
    lines = [
        f"{title}, predicted time to solution (interval of {say_share(first['level_ratio'])}), epochs and epoch time;",
        "! outside the published points, = such a submission exists:",
        f"{'units':>8}{'batch':>8}{'time [s]':>10}{'interval [s]':>20}{'epochs':>9}{'epoch [s]':>11}",
    ]
    return [*lines, *(_say_row(row) for row in rows)]


def _say_part(row: Row, words: str, name: str, unit: str) -> str:
    if math.isnan(row[f"{name}{unit}"]):
        return f"  {words:17} not logged: it is part of the extra time"
    value, low, high = (say_short(row[f"{name}{side}{unit}"]) for side in ("", "_low", "_high"))
    suffix = " s" if unit else ""
    return f"  {words:17} {value}{suffix}, interval of {say_share(row['level_ratio'])}: {low} to {high}{suffix}"


def _say_row(row: Row) -> str:
    place = f"{row['units']:>8}{row['global_batch_samples']:>8}"
    if row["reason"]:
        return f"{place}  not predicted: {row['reason']}"
    interval = f"{say_short(row['run_low_s'])} to {say_short(row['run_high_s'])}"
    marks = (" !" if row["extrapolated"] else "") + (" =" if row["ran"] else "")
    numbers = f"{say_short(row['run_s']):>10}{interval:>20}{say_short(row['epochs']):>9}{say_short(row['epoch_s']):>11}"
    return place + numbers + marks


def _say_errors(row: Row, references: int) -> str:
    without = f", without the {references} reference convergence points as well" if references else ""
    head = (
        f"leave-one-out: {row['predicted']} of {row['submissions']} submissions could be predicted from the "
        f"others{without}"
    )
    if not row["predicted"]:
        return f"{head}: the error of these predictions is not known"
    return (
        f"{head}; the time is off by a factor of {row['median_error_factor']:.2f} in the median and "
        f"{row['largest_error_factor']:.2f} at most (nearest submission {row['nearest_median_error_factor']:.2f}, "
        f"mean of all {row['mean_median_error_factor']:.2f} in the median); {row['inside']} of {row['predicted']} lie "
        f"inside their interval of {say_share(row['level_ratio'])}"
    )


def plain_values(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return numbers of numpy as Python's, and missing values as null."""
    if isinstance(value, Mapping):
        return {str(name): plain_values(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(part) for part in value]
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
