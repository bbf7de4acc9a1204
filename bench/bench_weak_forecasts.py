"""Forecasts of published weak-scaling results from ten of their instances: how often the interval holds, its width.

Each result is forecast with the scatter of tails learnt from all other submitters (table `mlperf_weak_backtest`), and
without any. The last line is the scatter over all results, which `hpcai.metrics.scaling.weak_tails` keeps for forecasts
of own groups. Command: python bench/bench_weak_forecasts.py v1.0 v2.0 v3.0 (result repositories or archives).
"""

import sys
from pathlib import Path

import numpy as np

from hpcai.metrics.scaling.weak_forecast import forecast_all
from hpcai.metrics.scaling.weak_tails import PUBLISHED_TAIL, Tail, Weak, fit_tail
from hpcai.metrics.statistics.summaries import LEVEL
from hpcai.mlperf_hpc.analysis.results_folder import import_tables, read_rounds
from hpcai.mlperf_hpc.analysis.weak_backtest import backtest_table, weak_result

NO_TAIL = Tail(0.0, PUBLISHED_TAIL.degrees)


def main() -> None:
    """Print coverage, widths and errors by round, and the scatter of tails."""
    if not sys.argv[1:]:
        print("no rounds: name their result repositories, such as v1.0 v2.0 v3.0")
        return
    tables = import_tables(read_rounds([Path(one) for one in sys.argv[1:]]))
    runs, weak = tables["mlperf_runs"], tables["mlperf_weak"]
    found = backtest_table(runs, weak.assign(label=weak["submission"]))
    known = found[found["reason"] == ""]
    results = [weak_result(row, runs) for row in weak.to_dict("records") if not row["same_runs_as"]]
    results = [one for one in results if isinstance(one, Weak)]
    print(f"{LEVEL:.0%} intervals    results  inside  median_width  largest  median_error  largest")
    for name, own in [*known.groupby("origin"), ("all", known)]:
        _print(str(name), own["inside"], own["width_ratio"], own["error_ratio"])
    bare = [forecast_all(one.ends_s, one.instances, tail=NO_TAIL) for one in results]
    inside = [one.low <= result.all_s <= one.high for one, result in zip(bare, results, strict=True)]
    errors = [one.value / result.all_s - 1 for one, result in zip(bare, results, strict=True)]
    _print("no scatter", inside, [one.high / one.low for one in bare], errors)
    tail = fit_tail(results)
    print(f"scatter of tails over all results: {tail}; kept: {PUBLISHED_TAIL}")


def _print(name: str, inside, widths, errors) -> None:  # noqa: ANN001  columns
    off = np.abs(np.asarray(errors, float))
    print(
        f"{name:16}{len(off):10}{int(np.sum(inside)):8}{np.median(widths):14.2f}{np.max(widths):9.2f}"
        f"{np.median(off):13.1%}{np.max(off):9.1%}"
    )


if __name__ == "__main__":
    main()
