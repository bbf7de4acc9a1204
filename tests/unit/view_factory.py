"""Example view tables of characterised runs, for tests: plausible numbers that follow from the arguments alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hpcai.profiles.views import QUIET, RUN, VIEWS

NAMES = (
    "phases", "communication", "messages", "lanes", "kernels", "io", "ceilings", "links", "link_fits", "captures",
)  # fmt: skip
COLUMNS = {name: VIEWS[name] for name in NAMES}
BENCHMARKS = ("cosmoflow_tiny", "deepcam_tiny", "extreme_weather_tiny", "opencatalyst_tiny", "resnet50_tiny")
SHARES = {
    "NEGOTIATE_ALLREDUCE": 0.286, "WAIT_FOR_DATA": 0.05, "QUEUE": 0.01, "MEMCPY_IN_FUSION_BUFFER": 0.04,
    "MPI_ALLREDUCE": 0.50, "MEMCPY_OUT_FUSION_BUFFER": 0.05, "ALLREDUCE": 0.714,
}  # fmt: skip
KERNEL_SHARES = {
    "convolution": 0.42, "GEMM": 0.12, "batch normalisation": 0.08, "pooling": 0.01, "element-wise": 0.09,
    "data arrangement": 0.18, "allreduce": 0.03, "memcpy": 0.02, "other": 0.05,
}  # fmt: skip
NO_OTHERS: dict[str, Any] = {"quiet": "quiet", "others_ratio": 0.01, "steal_ratio": 0.0}
LATENCY_S, BANDWIDTH_BYTES_PER_S = 40e-6, 2.1e9

Tables = dict[str, pd.DataFrame]


def make_tables(runs: int = 2, *, names: Sequence[str] = BENCHMARKS, counters: bool = True) -> Tables:
    """Return all view tables of some profiled runs: each benchmark at two ranks, then each at four."""
    points = [make_point(names[number % len(names)], 2 * 2 ** (number // len(names))) for number in range(runs)]
    ranks = [2 * 2**power for power in range(1 + (runs - 1) // len(names))]
    return {
        "phases": _frame("phases", points, _phases),
        "communication": _frame("communication", points, _communication),
        "messages": _frame("messages", points, _messages),
        "lanes": _frame("lanes", points, _lanes),
        "kernels": _frame("kernels", points, lambda point: _kernels(point, counters=counters)),
        "io": _frame("io", points, _io),
        "ceilings": make_ceilings(),
        "links": make_links(ranks),
        "link_fits": make_link_fits(ranks),
        "captures": make_captures(),
    }


def make_empty_tables(reason: str = "") -> Tables:
    """Return the tables of a machine where nothing was captured; with a reason where one is given."""
    tables = {name: pd.DataFrame(columns=list(columns)) for name, columns in COLUMNS.items()}
    if reason:
        tables["captures"] = make_captures(reason)
    return tables


def make_point(benchmark: str = "cosmoflow_tiny", ranks: int = 2, variant: str = "fp32") -> dict[str, Any]:
    """Return the identity columns of one profiled run."""
    run_id = f"{benchmark}/{variant}/n1x{ranks}/1"
    source = f"results/profiles/timeline/{run_id}/raw/timeline.json"
    return dict(zip(RUN, (run_id, benchmark, variant, "horovod", f"n1x{ranks}", 1, ranks, source), strict=True))


def make_rows(table: str, point: dict[str, Any] | None = None, **values: Any) -> pd.DataFrame:
    """Return one row of a table in which everything but the values given is not measured."""
    row = {**dict.fromkeys(COLUMNS[table], np.nan), **(point or make_point()), **values}
    return pd.DataFrame([{name: row[name] for name in (*COLUMNS[table], *(set(values) - set(COLUMNS[table])))}])


def make_captures(
    reason: str = "libdarshan.so was not found; set profilers.darshan_library to its path",
) -> pd.DataFrame:
    """Return captures that were not possible."""
    tools = {"io": "Darshan", "kernels": "nvprof", "counters": "perf", "timeline": "Horovod timeline", "power": "none"}
    rows = [
        {**make_point(), "profile": profile, "tool": tool, "status": "not_measured", "reason": reason}
        for profile, tool in tools.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS["captures"]))


def _frame(table: str, points: Iterable[dict[str, Any]], make: Callable[[dict[str, Any]], Any]) -> pd.DataFrame:
    rows = [{**point, **row} for point in points for row in make(point)]
    return pd.DataFrame(rows, columns=list(COLUMNS[table]))


def _phases(point: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "phase": phase, "spans": 200, "total_s": share, "mean_s": share / 200, "median_s": share / 210,
            "share_ratio": share, "excluded_spans": 2,
        }
        for phase, share in SHARES.items()
    ]  # fmt: skip


def _communication(point: dict[str, Any]) -> list[dict[str, Any]]:
    share = 0.1 * point["ranks"]
    return [
        {
            "steps": 20, "operations": 200, "batches": 60, "batch_bytes_mean": 4.0e4, "other_batches": 0,
            "bytes_per_step": 1.2e5, "negotiation_s": 0.286, "negotiation_share_ratio": 0.286,
            "transfer_s": 0.5 * share, "other_transfer_s": 0.0,
            "exchange_per_step_s": 0.05 * share, "algorithm_bandwidth_bytes_per_s": 6.3e7,
            "bus_bandwidth_bytes_per_s": 6.3e7, "overlap_ratio": 0.4 if point["ranks"] == 2 else np.nan,
            "step_time_s": 0.05, "communication_share_ratio": share, "slowest_rank": 1,
            "slowest_rank_last_ratio": 0.55, "slowest_rank_negotiations": 40, "cycle_time_s": 0.001,
            "coverage_ratio": 1.0, "reasons": "",
        }
    ]  # fmt: skip


def _messages(point: dict[str, Any]) -> list[dict[str, Any]]:
    random = np.random.default_rng(len(point["benchmark"]) + point["ranks"])
    sizes = np.exp2(random.uniform(7, 22, 300)) // 4 * 4 + 4
    times = (LATENCY_S + sizes / BANDWIDTH_BYTES_PER_S) * random.uniform(1.1, 9, 300)
    return [
        {
            "start_s": 0.01 * number, "bytes": size, "tensors": 3, "duration_s": time,
            "algorithm_bandwidth_bytes_per_s": size / time,
        }
        for number, (size, time) in enumerate(zip(sizes, times, strict=True))
    ]  # fmt: skip


def _lanes(point: dict[str, Any], spans: int = 2000) -> list[dict[str, Any]]:
    step = 0.02 * point["ranks"]
    starts = np.linspace(0, 0.6 * step, spans)
    rows: list[tuple[str, str, float, float]] = [
        ("computation", "kernel", start, 0.25 * step / spans) for start in starts
    ]
    rows += [("negotiation", "NEGOTIATE_ALLREDUCE", 0.5 * step + n * 1e-4, 0.1 * step) for n in range(40)]
    for number in range(5):
        start = (0.62 + 0.07 * number) * step
        rows += [
            ("fusion buffer", "MEMCPY_IN_FUSION_BUFFER", start, 0.003 * step),
            ("transfer", "MPI_ALLREDUCE", start + 0.003 * step, 0.05 * step),
            ("fusion buffer", "MEMCPY_OUT_FUSION_BUFFER", start + 0.053 * step, 0.004 * step),
        ]
    return [dict(zip(("lane", "activity", "start_s", "duration_s"), row, strict=True)) for row in rows]


def _kernels(point: dict[str, Any], *, counters: bool) -> list[dict[str, Any]]:
    return [
        {
            "category": category, "calls": 1000, "total_s": share, "share_ratio": share,
            "instructions_per_cycle": 1.0 + share if counters else np.nan, "dram_bytes": np.nan,
            "dram_rate_bytes_per_s": 4e11 * share if counters and point["ranks"] == 2 else np.nan,
            "rule_set": "profilers 5", "tool": "nvprof",
        }
        for category, share in KERNEL_SHARES.items()
    ]  # fmt: skip


def _io(point: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for the training input; the third benchmark staged its data before."""
    row = _input(point)
    if point["benchmark"] != BENCHMARKS[2]:
        return [row]
    return [{**row, "data": "staging", "page_cache": "cold"}, row]


def _input(point: dict[str, Any]) -> dict[str, Any]:
    warm = point["benchmark"] != "cosmoflow_tiny"
    factor = 16.0 if warm else 1.0
    return {
        "data": "training input", "module": "POSIX", "workers": 4 * point["ranks"], "files": 1152,
        "read_bytes": 4.8e9, "reads": 36000, "opens": 1152, "read_time_s": 12.0,
        "bandwidth_sum_bytes_per_s": 1.1e9 * factor, "bandwidth_parallel_bytes_per_s": 0.9e9 * factor,
        "bandwidth_delivered_bytes_per_s": 0.15e9 * factor, "metadata_s": 1.5, "dataset_epochs": 1.0,
        "page_cache": "warm" if warm else "cold", "io_epoch_s": 13.0 / factor, "epoch_s": 10.0,
        "coverage_ratio": 1.0, "reasons": "",
    }  # fmt: skip


def make_ceilings() -> pd.DataFrame:
    """Return what a small machine without a GPU reaches."""
    rows: list[tuple[Any, ...]] = []
    for number, (precision, rate) in enumerate({"fp32": 1.5e11, "bf16": 6.1e11, "fp16": 9e9}.items()):
        for threads in (1, 2):
            for kind, backend in (("gemm", "TensorFlow"), ("gemm", "NumPy"), ("convolution", "TensorFlow")):
                if backend != "NumPy" or number == 0:
                    value = rate * threads * (0.8 if kind == "convolution" else 1)
                    rows.append((kind, precision, backend, "", "2048", threads, value, "FLOP/s", 6, 0.03, 4))
    rows += [
        ("memory", "", "NumPy copy", "", "arrays of 1 GiB", 2, 1.9e10, "B/s", 10, 0.05, 1),
        ("memory", "", "NumPy add", "", "arrays of 1 GiB", 2, 2.1e10, "B/s", 10, 0.05, 1),
        ("storage_read", "", "read", "node-local", "one file", 1, 3.0e9, "B/s", 5, 0.2, 2),
        ("storage_read", "", "read", "shared", "one file", 1, 1.4e9, "B/s", 5, 0.2, 2),
        ("storage_write", "", "write", "node-local", "one file", 1, 0.6e9, "B/s", 5, np.nan, 2),
        ("allreduce", "fp32", "Horovod", "", "2 ranks, 64 MiB", 1, 2.0e9, "B/s", 20, 0.1, 12),
    ]
    names = (
        "kind", "precision", "backend", "place", "setting", "threads", "value", "unit", "n", "spread_ratio", "ways",
    )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(names)).assign(reason="", source="results/characterise/ceilings.json")
    table["median"] = table["value"] * (1 - table["spread_ratio"].fillna(0) / 2)
    table = table.assign(threads_used=table["threads"], agreement_ratio=0.01, status="measured")
    missing: dict[str, Any] = {"kind": "gemm", "precision": "fp64", "backend": "TensorFlow", "unit": "FLOP/s", "n": 0}
    missing["status"] = "not measured"
    missing["reason"] = "oneDNN has no kernel for it, and the fall-back took longer than the limit of the measurement"
    return pd.concat([table, pd.DataFrame([missing])], ignore_index=True).assign(**NO_OTHERS)[list(COLUMNS["ceilings"])]


def make_links(ranks: Iterable[int] = (2,)) -> pd.DataFrame:
    """Return a measured allreduce whose transfers follow latency and bandwidth exactly; whole calls take 1 ms more."""
    rows: list[tuple[Any, ...]] = []
    for count in ranks:
        for what, wait_s in (("transfer", 0.0), ("call", 1e-3)):
            for size in 4.0 ** np.arange(1, 13.5):
                time = wait_s + LATENCY_S * count / 2 + size / BANDWIDTH_BYTES_PER_S
                bus = 2 * (count - 1) / count * size / time
                rows.append((what, "horovod", "node", count, size, time, 0.9 * time, 1.4 * time, 20, size / time, bus))
    return pd.DataFrame(rows, columns=list(COLUMNS["links"][:-1])).assign(source="results/characterise/allreduce.json")


def make_link_fits(ranks: Iterable[int] = (2,)) -> pd.DataFrame:
    """Return the fits of :func:`make_links`."""
    rows = [
        (what, "horovod", "node", count, wait_s + LATENCY_S * count / 2, 1e-6, BANDWIDTH_BYTES_PER_S, 1e8, 13, 0.1)
        for count in ranks
        for what, wait_s in (("transfer", 0.0), ("call", 1e-3))
    ]
    measured = [name for name in COLUMNS["link_fits"] if name not in (*QUIET, "reason", "source")]
    table = pd.DataFrame(rows, columns=measured)
    table = table.assign(**NO_OTHERS, reason="", source="results/characterise/allreduce.json")
    return table[list(COLUMNS["link_fits"])]
