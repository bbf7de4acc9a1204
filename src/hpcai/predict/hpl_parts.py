"""Parts of the time of HPL runs: as modelled, and as HPL's own timers measured them.

HPL that was compiled with ``HPL_DETAILED_TIMING`` prints how long the process with most of each part took for it. So a
part is modelled for one process: of Q process columns each factorises every Qth panel and waits for the others.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.predict.hpl_validation import SHAPE, average_rates, part_times, rates_of_library

COLUMNS = columns_of("hpl_parts")
REST = "broadcast and waiting"
NO_TIMERS = Message("hpl_parts.no_timers", "this HPL was compiled without its timers, as hpcc is")


def compare_parts(runs: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return table ``hpl_parts``: one row per run with a time, and part.

    Parameters
    ----------
    runs
        As :func:`~hpcai.predict.hpl_validation.validate_hpl` takes them, with ``panel_time_s``, ``update_time_s``,
        ``exchange_time_s`` and ``substitution_time_s``; NaN without timers.
    rates
        Table ``hpl_rates``.
    """
    timed = runs[runs["measured_time_s"].notna()]
    rows = [row for run in timed.to_dict("records") for row in _compare(run, rates)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"accepted": bool})


def _compare(run: Mapping[Hashable, Any], rates: pd.DataFrame) -> Iterator[dict[str, Any]]:
    own, no_rates = rates_of_library(run, rates)
    modelled, measured = _modelled(run, own), _measured(run)
    for part, modelled_s in modelled.items():
        measured_s = measured[part]
        unknown: list[str] = [NO_TIMERS()] if np.isnan(measured_s) else []
        unknown += [no_rates] if np.isnan(modelled_s) else []
        yield {
            **{name: run[name] for name in COLUMNS if name in run},
            "part": part,
            "modelled_s": modelled_s,
            "measured_s": measured_s,
            "share_of_error_ratio": (modelled_s - measured_s) / float(run["measured_time_s"]),
            "reason": "; ".join(words for words in (str(run["reason"]), *unknown) if words),
            "method": "modelled: work at measured rates; measured: HPL's timers",
        }


def _modelled(run: Mapping[Hashable, Any], rates: pd.DataFrame) -> dict[str, float]:
    order, block, rows, columns = (int(run[name]) for name in ("order", *SHAPE))
    parts = part_times(run, average_rates(order, block, rows, columns, rates))
    own_s = parts["panel_s"] / columns
    return {
        "panels": own_s,
        "row exchanges": parts["exchange_s"],
        "update and solve": parts["update_s"] + parts["solve_s"],
        "back substitution": parts["substitution_s"],
        REST: parts["broadcast_s"] + parts["panel_s"] - own_s,
    }


def _measured(run: Mapping[Hashable, Any]) -> dict[str, float]:
    """Return what the timers say; what is left of the time is the rest."""
    parts = ("panel_time_s", "exchange_time_s", "update_time_s", "substitution_time_s")
    panel_s, exchange_s, update_s, substitution_s = (float(run[name]) for name in parts)
    return {
        "panels": panel_s,
        "row exchanges": exchange_s,
        "update and solve": update_s - exchange_s,
        "back substitution": substitution_s,
        REST: float(run["measured_time_s"]) - panel_s - update_s - substitution_s,
    }
