"""The tables that characterisation shows: their names and columns, each the answer to one question about the runs."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

import pandas as pd

from hpcai.catalogue.profiles import PROFILES
from hpcai.metrics.quietness import Quiet
from hpcai.profiles.profile import IDENTITY

RUN = (*IDENTITY, "source")
"""Which point a row belongs to, and the raw file that it was made from."""
QUIET = tuple(field.name for field in fields(Quiet))
"""What others took of the machine meanwhile."""

VIEWS: dict[str, tuple[str, ...]] = {
    "captures": (*RUN, "profile", "tool", "status", "reason", "coverage_ratio", *QUIET, "raw"),
    "phases": (
        *RUN, "phase", "spans", "total_s", "mean_s", "median_s", "share_ratio", "excluded_spans",
    ),
    "communication": (
        *RUN, "steps", "operations", "batches", "batch_bytes_mean", "other_batches", "bytes_per_step",
        "negotiation_s", "negotiation_share_ratio", "transfer_s", "other_transfer_s", "exchange_per_step_s",
        "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s", "overlap_ratio", "overlap_source",
        "step_time_s", "communication_share_ratio", "slowest_rank", "slowest_rank_last_ratio",
        "slowest_rank_negotiations", "cycle_time_s", "coverage_ratio", "reasons",
    ),
    "messages": (*RUN, "start_s", "bytes", "tensors", "duration_s", "algorithm_bandwidth_bytes_per_s"),
    "lanes": (*RUN, "lane", "activity", "start_s", "duration_s"),
    "overlap": (*RUN, "overlap_ratio", "transfer_s", "steps"),
    "kernels": (
        *RUN, "category", "calls", "total_s", "share_ratio", "instructions_per_cycle", "dram_bytes",
        "dram_rate_bytes_per_s", "counted_ratio", "untimed_calls", "rule_set", "tool", "coverage_ratio", "reasons",
    ),
    "kernel_names": (*RUN, "name", "category", "calls", "total_s", "share_ratio", "tool"),
    "counters": (
        *RUN, "tool", "work_flop", "flop_per_sample", "duration_s", "rate_flop_per_s", "dram_bytes",
        "dram_rate_bytes_per_s", "instructions_per_cycle", "intensity_flop_per_byte", "coverage_ratio",
        "reasons",
    ),
    "io": (
        *RUN, "data", "module", "workers", "files", "read_bytes", "reads", "opens", "read_time_s",
        "bandwidth_sum_bytes_per_s", "bandwidth_parallel_bytes_per_s", "bandwidth_delivered_bytes_per_s", "metadata_s",
        "dataset_epochs", "page_cache", "io_epoch_s", "io_epoch_mean_s", "io_epoch_delivered_s", "epoch_s",
        "io_share_ratio", "coverage_ratio", "reasons",
    ),
    "io_workers": (
        *RUN, "data", "log", "process_id", "rank", "executable", "module", "files", "read_bytes", "reads", "opens",
        "read_time_s", "metadata_s", "bandwidth_bytes_per_s", "first_read_s", "last_read_s",
    ),
    "power": (
        *RUN, "instrument", "energy_j", "mean_power_w", "duration_s", "samples", "coverage_ratio", "reasons",
    ),
    "work": (
        "benchmark", "variant", "scale", "ranks", "method", "flop_per_sample", "samples_per_step", "flop_per_step",
        "train_rate_samples_per_s", "rate_flop_per_s", "rate_n", "ratio_to_formula",
        "memory_bytes_per_sample", "memory_method", "stage", "reason", "source",
    ),
    "ceilings": (
        "kind", "precision", "backend", "place", "setting", "threads", "threads_used", "value", "median", "unit", "n",
        "spread_ratio", "agreement_ratio", "ways", *QUIET, "status", "reason", "source",
    ),
    "links": (
        "what", "scope", "ranks", "bytes", "time_s", "time_min_s", "time_max_s", "n", "algorithm_bandwidth_bytes_per_s",
        "bus_bandwidth_bytes_per_s", "source",
    ),
    "link_fits": (
        "what", "scope", "ranks", "latency_s", "latency_error_s", "bandwidth_bytes_per_s",
        "bandwidth_error_bytes_per_s", "n", "misfit_ratio", *QUIET, "reason", "source",
    ),
    "characterisation": (
        *IDENTITY, "memory_bandwidth_bytes_per_s", "memory_bandwidth_method", "memory_bandwidth_reason",
        "memory_bandwidth_source", "network_bandwidth_bytes_per_s", "network_bandwidth_method",
        "network_bandwidth_reason", "network_bandwidth_source", "io_bandwidth_bytes_per_s", "io_bandwidth_method",
        "io_bandwidth_reason", "io_bandwidth_source",
    ),
    "inconsistencies": ("what", "sample", "roof", "ratio", "sentence"),
    "advice": ("topic", "benchmark", "variant", "scale", "sentence", "evidence"),
    **{name: (*RUN, *own) for kind in PROFILES.values() for name, own in kind.columns.items()},
}  # fmt: skip
"""Columns of each view; units end their names, an empty cell was not measured."""


def as_view(name: str, rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as a view: all of its columns in their order, and no others."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return frame.reindex(columns=list(VIEWS[name])).reset_index(drop=True)


def join_views(name: str, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return one view of several runs."""
    filled = [part for part in parts if len(part)]
    return as_view(name, pd.concat(filled) if filled else [])
