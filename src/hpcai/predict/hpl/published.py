"""Table 2 of Hu and Lu 2021: its numbers, and their contradictions."""

import numpy as np
import pandas as pd

SOURCE = "Hu and Lu 2021, doi 10.1007/s11227-021-03829-x"

# nodes, GPUs per node, N, NB, estimated time [s], real rate, estimated rate [GFLOP/s], difference [%]
_TABLE_2 = (
    (1, 2, 88000, 256, 55.21, 8238, 8656, 5.07),
    (1, 2, 88000, 384, 52.65, 8232, 8635, 4.90),
    (1, 4, 127000, 256, 85.42, 15314, 15945, 4.12),
    (1, 4, 127000, 384, 85.65, 15230, 15916, 4.50),
    (2, 2, 125000, 128, 56.10, 14190, 14659, 3.31),
    (2, 2, 125000, 256, 89.03, 14079, 14633, 3.93),
    (2, 4, 176000, 64, 139.26, 24950, 26099, 4.61),
    (2, 4, 176000, 128, 139.35, 24832, 26082, 5.10),
)
TIME_TOLERANCE_RATIO = 0.003
"""Tolerance between printed and implied times."""
DIFFERENCE_ROUNDING_RATIO = 0.5e-4
"""Half of the last printed digit of the difference; rounding of the rates adds as much again."""


def read_table_2() -> pd.DataFrame:
    """Return Table 2 in SI units, with the values implied by its numbers.

    Columns: row (1 to 8), nodes, gpus_per_node, order, block, estimated_rate_flop_per_s, real_rate_flop_per_s,
    printed_time_s, implied_time_s (2/3 N³ over the estimated rate), printed_difference_ratio, difference_ratio
    (estimated / real - 1), note (printed numbers that disagree; use the estimated rate), method, source.
    """
    names = ["nodes", "gpus_per_node", "order", "block", "printed_time_s", "real", "estimated", "printed_percent"]
    table = pd.DataFrame(_TABLE_2, columns=names)
    table.insert(0, "row", np.arange(1, len(table) + 1))
    table["estimated_rate_flop_per_s"] = table.pop("estimated") * 1e9
    table["real_rate_flop_per_s"] = table.pop("real") * 1e9
    table["printed_difference_ratio"] = table.pop("printed_percent") / 100
    work_flop = 2 / 3 * table["order"].astype(float) ** 3
    table["implied_time_s"] = work_flop / table["estimated_rate_flop_per_s"]
    table["difference_ratio"] = table["estimated_rate_flop_per_s"] / table["real_rate_flop_per_s"] - 1
    table["note"] = [_note_of(row, flop) for (_, row), flop in zip(table.iterrows(), work_flop, strict=True)]
    return table.assign(method="declared", source=f"{SOURCE}, Table 2")


def _note_of(row: pd.Series, work_flop: float) -> str:
    notes = []
    if abs(row["printed_time_s"] / row["implied_time_s"] - 1) > TIME_TOLERANCE_RATIO:
        rate_gflop_per_s = work_flop / row["printed_time_s"] / 1e9
        notes.append(
            f"printed time {row['printed_time_s']:.2f} s means {rate_gflop_per_s:.0f} GFLOP/s, the printed estimate "
            f"means {row['implied_time_s']:.2f} s"
        )
    if abs(row["printed_difference_ratio"] - row["difference_ratio"]) > 2 * DIFFERENCE_ROUNDING_RATIO:
        notes.append(
            f"printed difference {row['printed_difference_ratio']:.2%}, the printed rates give "
            f"{row['difference_ratio']:.2%}"
        )
    return "; ".join(notes)
