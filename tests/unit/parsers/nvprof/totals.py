"""Counter totals over the kernels of an nvprof table, for comparison with published ones."""

import math


def add_up_counter(counters, metric, source="metric"):
    """Return the total of a counter, ``metric`` or ``event``, over all kernels; NaN unless every kernel has it."""
    rows = counters[counters["source"] == source]
    kernels = rows[["name", "device"]].drop_duplicates()
    wanted = rows[rows["metric"] == metric]
    is_complete = len(wanted) > 0 and len(wanted[["name", "device"]].drop_duplicates()) == len(kernels)
    return float(wanted["total"].sum(skipna=False)) if is_complete else math.nan
