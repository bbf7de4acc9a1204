"""Counters in wide form: one row per launch, or per kernel where the tool aggregates."""

from collections.abc import Iterable

import pandas as pd

KEYS = ("name", "device", "process", "launch", "block_size", "grid_size")
"""Columns that identify the rows of a table of counters; nvprof has only the first two."""


class Launches:
    """A long table of counters, prepared for access by counter.

    Parameters
    ----------
    counters
        ``name``, ``device``, ``launch``, ``launches``, ``metric``, ``unit``, ``minimum``, ``maximum``, ``mean``,
        ``total``.
    """

    def __init__(self, counters: pd.DataFrame) -> None:
        keys = [key for key in KEYS if key in counters]
        rows = counters.assign(row=counters.groupby(keys, dropna=False, sort=False).ngroup())
        first = rows.groupby("row", sort=True).first()
        self.names: pd.Series[str] = first["name"]
        self.counts: pd.Series[int] = first["launches"].astype("int64")
        self._rows = rows
        self._first: dict[tuple[str, str], pd.Series[float]] = {}

    @property
    def metrics(self) -> list[str]:
        """Names of all counters that occur."""
        return [str(name) for name in self._rows["metric"].unique()]

    def values(self, column: str, names: Iterable[str], units: Iterable[str] | None = None) -> "pd.Series[float]":
        """Return ``column`` of the first of several counters that each launch has; NaN if it has none.

        Parameters
        ----------
        column
            ``minimum``, ``maximum``, ``mean`` or ``total``.
        names
            Counters with the same meaning, the preferred one first; values of different counters are never added.
        units
            Accepted units; a counter may occur twice, in two units.
        """
        found = pd.Series(float("nan"), index=self.names.index)
        for name in names:
            rows = self._rows[self._rows["metric"] == name]
            if units is not None:
                rows = rows[rows["unit"].isin(list(units))]
            values = rows.groupby("row")[column].first().astype(float).reindex(found.index)
            found = found.where(found.notna(), values)
        return found

    def totals(self, *names: str) -> "pd.Series[float]":
        """Return the totals over the launches of each row, from the first counter that the row has."""
        return self.values("total", names)

    def instructions(self, letter: str) -> tuple["pd.Series[float]", "pd.Series[float]"]:
        """Return thread instructions add + mul, and fma, of one precision (letter h, f or d) of Nsight Compute.

        All three come from the counters of multiprocessors (sm), or all from those of their sub-partitions (smsp).
        """
        both = pd.Series(float("nan"), index=self.names.index)
        single, fused = both, both
        for unit in ("sm", "smsp"):
            stem = f"{unit}__sass_thread_inst_executed_op_{letter}"
            add, mul, fma = (self.totals(f"{stem}{kind}_pred_on.sum") for kind in ("add", "mul", "fma"))
            is_whole = add.notna() & mul.notna() & fma.notna()
            single = single.where(single.notna() | ~is_whole, add + mul)
            fused = fused.where(fused.notna() | ~is_whole, fma)
        return single, fused
