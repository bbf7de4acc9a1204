"""Tables as pages of their own: Snakemake's report shows HTML files, but offers CSV files for download only."""

import html
import math
from collections.abc import Sequence

import pandas as pd

from hpcai.metrics.ranking import RANKING_COLUMNS
from hpcai.metrics.score_columns import SCORE_COLUMNS, TRIAL_COLUMNS

UNITS = {
    "_flop_per_s": "FLOP/s",
    "_flop_per_j": "FLOP/s per W",
    "_flop_per_byte": "FLOP/byte",
    "_bytes_per_s": "bytes/s",
    "_samples_per_s": "samples/s",
    "_bytes": "bytes",
    "_samples": "samples",
    "_ratio": "ratio",
    "_flop": "FLOP",
    "_s": "s",
    "_j": "J",
    "_w": "W",
}
"""Ends of column names and the units they stand for, the longest first."""
NOT_MEASURED = "not measured"
BLANK_SETTINGS = ("fusion_bytes", "cycle_time_s")
"""Columns of settings that may be left blank: then the default holds, and nothing was to be measured."""
NAMING_COLUMNS = ("precision", "backend", "place", "staging_place", "setting", "threads", "method", "stage")
"""Columns that say what was measured: blank where they do not apply, as the precision of a disk."""
EXPLAINING_COLUMNS = ("reason", "reasons", "raw", "source", "note", "dropped")
"""Columns of texts that are blank where there is nothing to explain; so are those that such a word ends."""
RUN_COLUMNS = (
    "run_id", "suite", "valid_for", "outcome", "reason", "ranks", "time_to_train_s", "epochs_to_target", "epochs",
    "quality_metric", "quality_unit", "best_quality", "quality_target",
    "train_rate_samples_per_s", "evaluation_rate_samples_per_s",
    "step_time_median_s", "wall_s", "launch_s", "import_s", "init_s", "staging_s", "training_s", "evaluation_s",
    "rest_s", "overhead_s", "staging_read_rate_bytes_per_s", "staging_write_rate_bytes_per_s",
    "staging_place", "staging_epoch_ratio", "staging_compression_ratio", "peak_memory_bytes", "ranks_identical",
    "quiet",
    "others_ratio", "steal_ratio", "disturbance_limit_ratio", "probe_before_flop_per_s", "probe_after_flop_per_s",
    "precision", "compression", "accumulation", "batchnorm_group", "fusion_bytes", "cycle_time_s",
    "global_batch_samples", "data_source", "seed", "earlier_attempts", "page_cache", "started_utc",
    "commit", "invalid_reasons", "flags", "record_path",
)  # fmt: skip
"""Columns of the table of runs that the report shows; the files have all."""
SCALE_COLUMNS = (
    "benchmark", "variant", "scale", "ranks", "suite", "valid_for", "n_ok", "n", "verdict", "time_to_train_mean_s",
    "time_to_train_low_s", "time_to_train_high_s", "time_to_train_median_s", "time_to_train_variation_ratio",
    "time_to_train_score_s", "time_to_train_score_method", "epochs_to_target_median", "rate_n",
    "train_rate_mean_samples_per_s", "train_rate_low_samples_per_s", "train_rate_high_samples_per_s",
    "evaluation_rate_mean_samples_per_s", "baseline", "time_to_train_speedup_ratio",
    "time_to_train_efficiency_ratio", "train_rate_speedup_ratio", "train_rate_efficiency_ratio", "staging_mean_s",
    "staging_read_rate_mean_bytes_per_s", "staging_place", "staging_epoch_ratio", "staging_compression_ratio",
    "overhead_mean_s",
    "peak_memory_max_bytes", "n_disturbed", "others_max_ratio", "steal_max_ratio",
    "n_not_converged", "n_diverged", "n_failed", "n_timed_out", "precision", "compression",
    "accumulation", "batchnorm_group", "fusion_bytes", "cycle_time_s", "global_batch_samples", "data_source",
    "label", "flags",
)  # fmt: skip
"""Columns of the table of scales that the report shows."""
VERDICT_COLUMNS = (
    "benchmark", "variant", "suite", "level", "verdict", "kind", "finding", "n_found", "n_valid", "n", "rule",
    "section",
)  # fmt: skip
"""Columns of the table of verdicts that the report shows."""
EFFICIENCY_COLUMNS = (
    "run_id", "kind", "outcome", "asked_nodes", "asked_cores", "asked_memory_bytes", "asked_time_s", "queue_wait_s",
    "wall_s", "cpu_time_s", "cpu_used_ratio", "node_memory_bytes", "memory_used_ratio", "time_used_ratio",
    "overhead_ratio", "node_hours", "core_hours", "attempts", "lost_node_hours", "source", "reason",
)  # fmt: skip
"""Columns of the table of what jobs asked for and used that the report shows."""
POINT_COLUMNS = ("benchmark", "variant", "scale", "ranks")
CHARACTERISATION_COLUMNS = {
    "characterisation": (
        *POINT_COLUMNS, "memory_bandwidth_bytes_per_s", "memory_bandwidth_method", "memory_bandwidth_reason",
        "network_bandwidth_bytes_per_s", "network_bandwidth_method", "network_bandwidth_reason",
        "io_bandwidth_bytes_per_s", "io_bandwidth_method", "io_bandwidth_reason", "memory_bandwidth_source",
        "network_bandwidth_source", "io_bandwidth_source",
    ),
    "work": (
        *POINT_COLUMNS, "method", "stage", "flop_per_sample", "flop_per_step", "samples_per_step",
        "train_rate_samples_per_s", "rate_flop_per_s", "rate_n", "ratio_to_formula", "memory_bytes_per_sample",
        "memory_method", "reason", "source",
    ),
    "ceilings": (
        "kind", "precision", "backend", "place", "setting", "threads", "value", "median", "unit", "n", "spread_ratio",
        "ways", "reason", "source",
    ),
    "links": (
        "what", "scope", "ranks", "bytes", "time_s", "time_min_s", "time_max_s", "n",
        "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s", "source",
    ),
    "kernels": (
        *POINT_COLUMNS, "category", "share_ratio", "calls", "total_s", "instructions_per_cycle", "dram_bytes",
        "dram_rate_bytes_per_s", "counted_ratio", "untimed_calls", "coverage_ratio", "reasons", "tool", "rule_set",
        "source",
    ),
    "phases": (
        *POINT_COLUMNS, "phase", "share_ratio", "spans", "total_s", "mean_s", "median_s", "excluded_spans", "source",
    ),
    "communication": (
        *POINT_COLUMNS, "step_time_s", "exchange_per_step_s", "communication_share_ratio", "overlap_ratio",
        "negotiation_s", "negotiation_share_ratio", "transfer_s", "algorithm_bandwidth_bytes_per_s",
        "bus_bandwidth_bytes_per_s", "bytes_per_step", "batch_bytes_mean", "batches", "operations", "steps",
        "slowest_rank", "slowest_rank_last_ratio", "slowest_rank_negotiations", "cycle_time_s", "coverage_ratio",
        "reasons", "source", "overlap_source",
    ),
    "io": (
        *POINT_COLUMNS, "data", "page_cache", "workers", "bandwidth_sum_bytes_per_s", "bandwidth_parallel_bytes_per_s",
        "bandwidth_delivered_bytes_per_s", "io_epoch_s", "epoch_s", "io_share_ratio", "read_bytes", "reads", "opens",
        "files", "read_time_s", "metadata_s", "dataset_epochs", "coverage_ratio", "reasons", "source",
    ),
    "power": (
        *POINT_COLUMNS, "instrument", "energy_j", "mean_power_w", "duration_s", "samples", "coverage_ratio", "reasons",
        "source",
    ),
    "advice": ("benchmark", "variant", "scale", "topic", "sentence", "evidence"),
    "inconsistencies": ("what", "sample", "roof", "ratio", "sentence"),
    "captures": (*POINT_COLUMNS, "profile", "tool", "status", "reason", "coverage_ratio", "raw"),
}  # fmt: skip
"""Columns that the report shows of each view of the profiled runs and of the machine's ceilings."""
SHOWN_COLUMNS = {
    "runs": RUN_COLUMNS,
    "scales": SCALE_COLUMNS,
    "verdicts": VERDICT_COLUMNS,
    "efficiency": EFFICIENCY_COLUMNS,
    **CHARACTERISATION_COLUMNS,
    "run_scores": TRIAL_COLUMNS,
    "scores": SCORE_COLUMNS,
    "ranking": RANKING_COLUMNS,
}
LONG = 30
"""Characters from which on a text needs a wide column."""
PROSE = 200
"""Characters from which on a text would make its row high, if the column were not very wide."""

_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --head: #f3f5f7; --bad: #b3261e; --mute: #6b7280; --back: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a424c; --head: #222931; --bad: #ff9a8f; --mute: #9aa4b0; --back: #14181d; }
}
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; background: var(--back); }
h1 { font-size: 1.1rem; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { background: var(--head); position: sticky; top: 0; font-weight: 600; z-index: 1; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--head); z-index: 2; }
td.text, th.text { text-align: left; white-space: normal; min-width: 7rem; max-width: 24rem; overflow-wrap: anywhere; }
th.long { min-width: 18rem; }
th.prose { min-width: 48rem; }
td.text:first-child { white-space: nowrap; max-width: none; }
tr.bad td { color: var(--bad); }
td.none, tr.bad td.none { color: var(--mute); font-size: .85em; }
.unit { display: block; font-weight: 400; color: var(--mute); }
p { max-width: 60rem; }
"""


def to_html(frame: pd.DataFrame, title: str, note: str = "", columns: Sequence[str] | None = None) -> str:
    """Return a table as a page that needs no other file, in light or dark as the reader's system asks.

    Parameters
    ----------
    frame
        A table whose column names end with their units. Rows whose ``outcome`` is not "converged" are marked.
    title, note
        Heading, and a sentence on what the numbers are (method, n).
    columns
        Columns to show, in this order; all by default.
    """
    shown = frame if columns is None else frame[[name for name in columns if name in frame]]
    texts = [_is_text(shown[name]) for name in shown]
    blanks = [_blank(str(name)) for name in shown]
    head = "".join(_heading(str(name), _kind(shown[name])) for name in shown)
    bad = frame["outcome"].ne("converged").tolist() if "outcome" in frame else [False] * len(frame)
    rows = "\n".join(
        ('<tr class="bad">' if marked else "<tr>")
        + "".join(_cell(*cell) for cell in zip(row, texts, blanks, strict=True))
        + "</tr>"
        for row, marked in zip(shown.itertuples(index=False, name=None), bad, strict=True)
    )
    empty = "" if len(shown) else "<p>Nothing was measured: the table has no rows.</p>"
    heading = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><h1>{heading}</h1><p>{html.escape(note)}</p>\n"
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>{empty}</body></html>\n"
    )


def split_unit(column: str) -> tuple[str, str]:
    """Return the words of a column's name and its unit; the unit is empty for counts, names and texts."""
    for end, unit in UNITS.items():
        if column.endswith(end):
            return column.removesuffix(end).replace("_", " "), unit
    return column.replace("_", " "), ""


def _blank(column: str) -> str:
    """Return what stands in a cell without a value."""
    if column in BLANK_SETTINGS:
        return "default"
    if column in NAMING_COLUMNS:
        return "–"
    return "" if column.rpartition("_")[2] in EXPLAINING_COLUMNS else NOT_MEASURED


def _heading(column: str, kind: str) -> str:
    words, unit = split_unit(column)
    shown = f'<span class="unit">[{unit}]</span>' if unit else ""
    return f'<th{kind} scope="col">{html.escape(words)}{shown}</th>'


def _kind(values: pd.Series) -> str:
    """Return the class of a heading: numbers, texts, long texts or very long ones."""
    if not _is_text(values):
        return ""
    characters = values.astype(str).str.len().max()
    width = " prose" if characters > PROSE else " long" if characters > LONG else ""
    return f' class="text{width}"'


def _is_text(values: pd.Series) -> bool:
    return not (pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values))


def _cell(value: object, text: bool, blank: str) -> str:
    if value is pd.NA or value is None or (isinstance(value, float) and not math.isfinite(value)):
        return f'<td class="{"text none" if text else "none"}">{blank}</td>'
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    words = _digits(value) if isinstance(value, float) else str(value)
    kind = ' class="text"' if text else ""
    return f"<td{kind}>{html.escape(words)}</td>"


def _digits(value: float) -> str:
    """Five significant digits; large numbers in groups of three."""
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.5g}"
