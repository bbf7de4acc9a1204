"""Tables as pages of their own: Snakemake's report shows HTML files, but offers CSV files for download only."""

import html
import math
from collections.abc import Sequence

import pandas as pd

UNITS = {
    "_flop_per_s": "FLOP/s",
    "_bytes_per_s": "bytes/s",
    "_samples_per_s": "samples/s",
    "_bytes": "bytes",
    "_samples": "samples",
    "_ratio": "ratio",
    "_s": "s",
}
"""Ends of column names and the units they stand for, the longest first."""
NOT_MEASURED = "not measured"
BLANK_SETTINGS = ("fusion_bytes", "cycle_time_s")
"""Columns of settings that may be left blank: then the default holds, and nothing was to be measured."""
RUN_COLUMNS = (
    "run_id", "suite", "valid_for", "outcome", "reason", "ranks", "time_to_train_s", "epochs_to_target", "epochs",
    "quality_metric", "quality_unit", "best_quality", "quality_target",
    "train_rate_samples_per_s", "evaluation_rate_samples_per_s",
    "step_time_median_s", "wall_s", "launch_s", "import_s", "init_s", "staging_s", "training_s", "evaluation_s",
    "rest_s", "overhead_s", "staging_read_rate_bytes_per_s", "staging_write_rate_bytes_per_s",
    "staging_epoch_ratio", "staging_compression_ratio", "peak_memory_bytes", "ranks_identical", "precision",
    "compression", "accumulation", "batchnorm_group", "fusion_bytes", "cycle_time_s", "global_batch_samples",
    "data_source", "seed", "earlier_attempts", "page_cache", "started_utc", "commit", "invalid_reasons", "flags",
    "record_path",
)  # fmt: skip
"""Columns of the table of runs that the report shows; the files have all."""
SCALE_COLUMNS = (
    "benchmark", "variant", "scale", "ranks", "suite", "valid_for", "n_ok", "n", "verdict", "time_to_train_mean_s",
    "time_to_train_low_s", "time_to_train_high_s", "time_to_train_median_s", "time_to_train_variation_ratio",
    "time_to_train_score_s", "time_to_train_score_method", "epochs_to_target_median", "rate_n",
    "train_rate_mean_samples_per_s", "train_rate_low_samples_per_s", "train_rate_high_samples_per_s",
    "evaluation_rate_mean_samples_per_s", "baseline", "time_to_train_speedup_ratio",
    "time_to_train_efficiency_ratio", "train_rate_speedup_ratio", "train_rate_efficiency_ratio", "staging_mean_s",
    "staging_read_rate_mean_bytes_per_s", "staging_epoch_ratio", "staging_compression_ratio", "overhead_mean_s",
    "peak_memory_max_bytes", "n_not_converged", "n_diverged", "n_failed", "n_timed_out", "precision", "compression",
    "accumulation", "batchnorm_group", "fusion_bytes", "cycle_time_s", "global_batch_samples", "data_source",
    "label", "flags",
)  # fmt: skip
"""Columns of the table of scales that the report shows."""
VERDICT_COLUMNS = (
    "benchmark", "variant", "suite", "level", "verdict", "kind", "finding", "n_found", "n_valid", "n", "rule",
    "section",
)  # fmt: skip
"""Columns of the table of verdicts that the report shows."""
SHOWN_COLUMNS = {"runs": RUN_COLUMNS, "scales": SCALE_COLUMNS, "verdicts": VERDICT_COLUMNS}
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
    blanks = ["default" if name in BLANK_SETTINGS else NOT_MEASURED for name in shown]
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
        return f'<td class="none">{blank}</td>'
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    words = _digits(value) if isinstance(value, float) else str(value)
    kind = ' class="text"' if text else ""
    return f"<td{kind}>{html.escape(words)}</td>"


def _digits(value: float) -> str:
    """Five significant digits; large numbers in groups of three."""
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.5g}"
