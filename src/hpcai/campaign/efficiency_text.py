"""Format a campaign's efficiency for a terminal: sums by benchmark, then the runs with the lowest use."""

import math
from textwrap import fill

import pandas as pd

from hpcai.core.text import say_percent, say_short
from hpcai.core.text_table import WIDTH, say_table

MOST_ROWS = 30
SUM_HEADS = ("benchmark", "runs", "node-h", "lost", "core-h", "CPU [%]", "mem. [%]", "limit [%]", "rest [%]")
RUN_HEADS = ("run", "cores", "wall [s]", "CPU [%]", "mem. [%]", "limit [%]", "rest [%]")
JOB_HEADS = ("rule", "jobs", "node-h", "core-h", "CPU [%]", "limit [%]", "largest task [MiB]")
LEGEND = (
    "CPU: processor time of all ranks / (cores allocated x wall time). mem.: ranks of the node with the largest use / "
    "memory allocated per node. limit: largest wall time / time limit. rest: share of the wall time outside "
    "training and "
    "evaluation. lost: node-hours of failed or interrupted attempts; earlier attempts are not in node-h. "
    "Means are of the runs that have the number, weighted by core-hours. – not known. Wall times are the launcher's: "
    "waiting in the queue and the supervisor's own work are not in them. Method: measured."
)


def say_efficiency(table: pd.DataFrame, jobs: pd.DataFrame | None = None) -> str:
    """Return the sums by benchmark and for the campaign, the runs that used their cores least, and other jobs.

    Parameters
    ----------
    table
        :func:`hpcai.campaign.efficiency.efficiency_table`.
    jobs
        Jobs of sacct that are not runs of the table; None if accounting was not asked.
    """
    stage = table["kind"].map(lambda kind: {"timed": "", "weak": " weak"}.get(kind, " profiled"))
    groups = [(str(name), part) for name, part in table.groupby(table["benchmark"] + stage, sort=True)]
    sums = [_sum_row(name, part) for name, part in [*groups, ("all", table)]]
    parts = [say_table(SUM_HEADS, sums), fill(LEGEND, WIDTH), "", _say_runs(table), *_say_reasons(table)]
    if jobs is not None:
        parts += ["", _say_jobs(jobs)]
    return "\n".join(parts)


def _sum_row(name: str, part: pd.DataFrame) -> list[str]:
    return [
        name,
        str(len(part)),
        *(say_short(_sum(part[column])) for column in ("node_hours", "lost_node_hours", "core_hours")),
        *(say_percent(_mean(part, column)) for column in ("cpu_used_ratio", "memory_used_ratio")),
        say_percent(part["time_used_ratio"].max()),
        say_percent(_mean(part, "overhead_ratio")),
    ]


def _sum(values: pd.Series) -> float:
    return float(values.sum(min_count=1))


def _mean(part: pd.DataFrame, column: str) -> float:
    """Return the mean of the known values, weighted by core-hours."""
    known = part.dropna(subset=[column, "core_hours"])
    weights = float(known["core_hours"].sum())
    return float((known[column] * known["core_hours"]).sum()) / weights if weights > 0 else math.nan


def _say_runs(table: pd.DataFrame) -> str:
    shown = table.sort_values("cpu_used_ratio", kind="stable").head(MOST_ROWS)
    rows = [
        [
            f"{row['run_id']} {row['kind']}" if row["kind"] != "timed" else str(row["run_id"]),
            *(say_short(row[column]) for column in ("asked_cores", "wall_s")),
            *(say_percent(row[column]) for column in ("cpu_used_ratio", "memory_used_ratio", "time_used_ratio")),
            say_percent(row["overhead_ratio"]),
        ]
        for row in shown.to_dict("records")
    ]
    more = len(table) - len(shown)
    head = f"Runs, the least busy first{f' ({len(shown)} of {len(table)}; --csv has all)' if more else ''}:"
    return f"{head}\n{say_table(RUN_HEADS, rows)}"


def _say_reasons(table: pd.DataFrame) -> list[str]:
    counts = table.loc[table["reason"] != "", "reason"].value_counts()
    told = table["source"].replace("", "no run ended in a record").value_counts()
    return [
        "",
        *(f"allocation according to {source}: {count} runs" for source, count in told.items()),
        *(fill(f"empty in {count} runs: {reason}", WIDTH) for reason, count in counts.head(MOST_ROWS).items()),
    ]


def _say_jobs(jobs: pd.DataFrame) -> str:
    rows = [
        [
            str(rule) or "(no rule in the comment)",
            str(len(part)),
            say_short(_sum(part["node_hours"])),
            say_short(_sum(part["core_hours"])),
            say_percent(_mean(part, "cpu_efficiency_ratio")),
            say_percent(part["time_limit_used_ratio"].max()),
            say_short(part["task_memory_bytes"].max() / 2**20),
        ]
        for rule, part in jobs.groupby("rule", sort=True)
    ]
    if not rows:
        return "Other jobs in Slurm's accounting: none"
    return f"Other jobs in Slurm's accounting (sacct):\n{say_table(JOB_HEADS, rows)}"
