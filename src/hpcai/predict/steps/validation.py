"""Times of measured allreduces beside the ring model's, as its source validates it: each from the other sizes."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.metrics.profiles.link import CALL, fit_link

ALLREDUCE_COLUMNS = columns_of("allreduce_errors")
KEY = ["engine", "scope", "ranks"]


def judge_allreduces(links: pd.DataFrame) -> pd.DataFrame:
    """Return table ``allreduce_errors``: each size of a measured allreduce, as a ring of the other sizes predicts it.

    At the ranks of the measurement the ring model (Barrachina et al. 2023, eq. 1) is a line of latency and bandwidth.

    Parameters
    ----------
    links
        Table ``links``; only whole calls, which a training step waits for.
    """
    calls = links[links["what"] == CALL] if len(links) else links
    rows = [row for _, own in calls.groupby(KEY, sort=False) for row in _judge(own)] if len(calls) else []
    return pd.DataFrame(rows, columns=list(ALLREDUCE_COLUMNS))


def _judge(own: pd.DataFrame) -> Sequence[dict[str, Any]]:
    rows = []
    for row in own.to_dict("records"):
        others = own[own["bytes"] != row["bytes"]]
        fit = fit_link(others["bytes"].tolist(), others["time_s"].tolist())
        predicted_s = fit.latency_s + row["bytes"] / fit.bandwidth_bytes_per_s
        rows.append(
            {
                **{name: row[name] for name in (*KEY, "bytes")},
                "predicted_s": predicted_s,
                "measured_s": row["time_s"],
                "relative_error_ratio": predicted_s / row["time_s"] - 1,
                "weighted_error_ratio": (predicted_s - row["time_s"]) / own["time_s"].mean(),
                "reason": fit.reason,
                "method": "modelled",
                "source": row["source"],
            }
        )
    return rows
