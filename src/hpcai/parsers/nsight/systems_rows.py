"""One row of an nsys report as numbers, if it agrees with itself."""

import math
from dataclasses import dataclass

from hpcai.parsers.units_text import NumberStyle

FACTORS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
FACTORS |= {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SPREAD = ("mean", "minimum", "maximum", "median", "deviation")
SLACK_RATIO = 1e-6
DEVIATION_SLACK_RATIO = 1e-3


@dataclass(frozen=True)
class Row:
    """Numbers of one row in the unit of its report; NaN for a column that the report has not.

    Attributes
    ----------
    name
        Of the kernel, copy or function.
    calls
        How often it ran.
    total
        Time or size of all calls.
    spread
        Mean, minimum, maximum, median and standard deviation over the calls.
    share
        Part of the report's time [%].
    """

    name: str
    calls: int
    total: float
    spread: dict[str, float]
    share: float


def read_row(cells: dict[str, str], style: NumberStyle) -> Row:
    """Return the numbers of a row.

    Raises
    ------
    ValueError
        If a cell is no number, or if the row contradicts itself.
    """
    amount = cells["size" if "size" in cells else "total"]
    values = {column: style.read(cells[column]) if column in cells else math.nan for column in (*SPREAD, "share")}
    calls, total = style.read(cells["calls"]), style.read(amount)
    halves = {column: _half_step(cells.get(column, ""), style) for column in SPREAD}
    if not (cells["name"] and calls >= 1 and calls.is_integer() and total >= 0):
        raise ValueError(cells["name"])
    if not _is_consistent(values, halves, int(calls), (total, _half_step(amount, style))):
        raise ValueError(cells["name"])
    return Row(cells["name"], int(calls), total, {column: values[column] for column in SPREAD}, values["share"])


def _half_step(text: str, style: NumberStyle) -> float:
    """Return by how much a printed number may be rounded."""
    return 0.5 * 10.0 ** -style.decimals(text)


def _is_consistent(
    values: dict[str, float], halves: dict[str, float], calls: int, total_and_half: tuple[float, float]
) -> bool:
    """Return whether the columns of a row can belong to one set of calls; what is missing contradicts nothing."""
    total, half = total_and_half
    mean, low, high, median = (values[column] for column in ("mean", "minimum", "maximum", "median"))
    slack = half + calls * max(halves[column] for column in SPREAD) + SLACK_RATIO * total
    step = max(halves.values()) * 2 + SLACK_RATIO * abs(mean)
    contradictions = (
        abs(calls * mean - total) > half + calls * halves["mean"] + SLACK_RATIO * total,
        low > mean + step or mean > high + step,
        low > median + step or median > high + step,
        total < (calls - 1) * low + high - slack,
        total > low + (calls - 1) * high + slack,
    )
    return not any(contradictions) and _is_possible_deviation(values, calls, step)


def _is_possible_deviation(values: dict[str, float], calls: int, step: float) -> bool:
    """Return whether minimum, maximum and mean allow the deviation (of a sample: divided by calls - 1).

    The squares sum up to at least those of the two extremes, and to at most calls x (maximum - mean) x (mean - minimum)
    (Bhatia and Davis, A better bound on the variance, 2000).
    """
    deviation, mean = values["deviation"], values["mean"]
    above, below = values["maximum"] - mean, mean - values["minimum"]
    if calls == 1:
        return not (deviation > step or above > step or below > step)
    squares = deviation**2 * (calls - 1)
    slack = DEVIATION_SLACK_RATIO * squares + 2 * step * calls * (abs(above) + abs(below) + deviation + step)
    return not (squares < above**2 + below**2 - slack or squares > calls * above * below + slack)
