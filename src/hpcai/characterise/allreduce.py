"""Bandwidth and latency of the allreduce over message sizes, measured by ranks of the Horovod that trains."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.characterise.apart import DeviceKind
from hpcai.characterise.ceilings import COLUMNS
from hpcai.errors import RecordError
from hpcai.metrics.link import AllreduceReport, fit_link
from hpcai.metrics.words import say_bytes
from hpcai.records import read_part

PROGRAM = (sys.executable, "-m", "hpcai.training.allreduce_bench")
LIMIT_S = 120
GRACE_S = 10.0
LINK_COLUMNS = (
    "scope",
    "ranks",
    "bytes",
    "time_s",
    "time_min_s",
    "time_max_s",
    "n",
    "algorithm_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s",
    "source",
)


def measure_allreduce(
    launch: Sequence[str],
    cores_per_rank: int,
    device: DeviceKind = "cpu",
    options: Sequence[str] = (),
    limit_s: int = LIMIT_S,
) -> str:
    """Start ranks, let them time allreduces, and return an :class:`AllreduceReport` as JSON.

    Ranks that fail are a report without samples that says why: the campaign goes on.

    Parameters
    ----------
    launch
        Command that starts the program which follows once per rank; blank where no launcher is to be had.
    cores_per_rank, device
        What each rank computes on.
    options
        More options of the program, for example ``--sizes``.
    limit_s
        Longest time for everything [s].
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "allreduce.json"
        command = [*launch, *PROGRAM, "--output", str(output), "--limit-s", str(limit_s)]
        command += ["--cores-per-rank", str(cores_per_rank), "--device", device, *options]
        problem = _run(command, Path(folder) / "output.log", limit_s)
        try:
            report = read_part(AllreduceReport, output)
        except (RecordError, OSError) as error:
            problem = problem or f"the launcher ended well, but the ranks' report is not there: {error}"
            report = AllreduceReport()
    if problem:
        report = report.model_copy(update={"not_measured": (*report.not_measured, problem)})
    return report.model_dump_json(indent=1) + "\n"


def _run(command: Sequence[str], log: Path, limit_s: float) -> str:
    """Run the launcher; return what went wrong, blank if nothing did."""
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return f"{command[0]}: the launcher cannot be started: {error.strerror}"
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"ended after its limit of {limit_s:g} s"
        finally:
            _end(process)
    if status == 0:
        return ""
    return f"the launcher ended with exit status {status}: {_telling_line(log.read_text(errors='replace'))}"


_ERRORS = (re.compile(r"hpcai\.errors\.\w+: .*"), re.compile(r"\b\w+(?:Error|Exception): .*"), re.compile(r".*\S.*"))
"""What tells best why ranks failed, the best first: our own error, any error, any words."""


def _telling_line(output: str) -> str:
    """Return the first error of a launcher's output: the ranks' own come before its comments on them."""
    found = (pattern.search(output) for pattern in _ERRORS)
    return next((match.group().strip()[:500] for match in found if match), "no output")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher, politely first, so that it ends its ranks; ranks that it forgets end themselves."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def scope_of(report: AllreduceReport) -> str:
    """Return ``node`` for ranks of one node, ``network`` for more, blank if no rank has reported."""
    if report.nodes is None:
        return ""
    return "node" if report.nodes == 1 else "network"


def bus_factor(ranks: int) -> float:
    """Return bus over algorithm bandwidth of an allreduce, 2 (n - 1) / n (nccl-tests, doc/PERFORMANCE.md)."""
    return 2 * (ranks - 1) / ranks


def link_rows(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the rows of the view of links: one for each message size; none if nothing was measured."""
    sizes: dict[int, list[float]] = {}
    for sample in report.samples:
        sizes.setdefault(sample.size_bytes, []).append(sample.duration_s)
    rows = [_link_row(report, size, times_s) for size, times_s in sorted(sizes.items())]
    return pd.DataFrame(rows, columns=list(LINK_COLUMNS)).assign(source=source)


def _link_row(report: AllreduceReport, size_bytes: int, times_s: Sequence[float]) -> dict[str, object]:
    if report.ranks is None:
        raise RecordError("allreduce report: found samples without a number of ranks; measure again")
    time_s = float(np.median(times_s))
    return {
        "scope": scope_of(report),
        "ranks": report.ranks,
        "bytes": size_bytes,
        "time_s": time_s,
        "time_min_s": min(times_s),
        "time_max_s": max(times_s),
        "n": len(times_s),
        "algorithm_bandwidth_bytes_per_s": size_bytes / time_s,
        "bus_bandwidth_bytes_per_s": bus_factor(report.ranks) * size_bytes / time_s,
    }


def link_fit_row(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the row of the view of link fits: numbers, or NaN and the reason."""
    links = link_rows(report, source)
    fit = fit_link(list(links["bytes"]), list(links["time_s"]))
    numbers = {name: value for name, value in asdict(fit).items() if name != "reason"}
    reason = "; ".join(filter(None, [*report.not_measured, fit.reason]))
    ranks = np.nan if report.ranks is None else report.ranks
    return pd.DataFrame([{"scope": scope_of(report), "ranks": ranks, **numbers, "reason": reason, "source": source}])


def allreduce_ceiling(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the row of the view of ceilings: the best bus bandwidth of any size, or why there is none."""
    links = link_rows(report, source)
    base: dict[str, object] = {"kind": "allreduce", "precision": "", "backend": "horovod", "unit": "B/s"}
    if links.empty:
        reason = "; ".join(report.not_measured) or "no message size was timed"
        missing = {"setting": scope_of(report), "n": 0, "ways": 0, "reason": reason}
        return pd.DataFrame([{**base, **missing}], columns=list(COLUMNS)).assign(source=source)
    best = links.loc[(links["bytes"] / links["time_min_s"]).idxmax()]
    moved = float(best["bus_bandwidth_bytes_per_s"] * best["time_s"])
    fastest, slowest = (moved / float(best[name]) for name in ("time_min_s", "time_max_s"))
    median = moved / float(best["time_s"])
    row = {
        **base,
        "setting": f"{best['scope']}, {best['ranks']} ranks, {say_bytes(int(best['bytes']))}, bus bandwidth",
        "value": fastest,
        "median": median,
        "n": int(best["n"]),
        "spread_ratio": (fastest - slowest) / median,
        "ways": len(links),
        "reason": "; ".join(report.not_measured),
    }
    return pd.DataFrame([row], columns=list(COLUMNS)).assign(source=source)
