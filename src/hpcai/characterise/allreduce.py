"""Bandwidth and latency of the allreduce over message sizes, measured by ranks of the Horovod that trains.

The ranks record Horovod's timeline, as profiled runs do: it tells how long the transfer within each call took.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.characterise.ceilings import COLUMNS
from hpcai.characterise.subprocess_measure import THIS_PYTHON, DeviceKind
from hpcai.errors import ParseError, RecordError
from hpcai.metrics.communication import is_allreduce_transfer
from hpcai.metrics.link import CALL, TRANSFER, AllreduceReport, AllreduceSample, fit_link
from hpcai.metrics.words import say_bytes
from hpcai.parsers.horovod.timeline import read_timeline
from hpcai.records import read_part
from hpcai.training.allreduce_bench import WARM_UP, tensor_name

PROGRAM = ("-m", "hpcai.training.allreduce_bench")
LIMIT_S = 120
GRACE_S = 10.0
LINK_COLUMNS = (
    "what",
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
    python: Sequence[str] = THIS_PYTHON,
) -> AllreduceReport:
    """Start ranks and let them time allreduces.

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
    python
        Command that is the Python of the ranks: this environment's, or that of the machine's image.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "allreduce.json"
        timeline = Path(folder) / "timeline.json"
        command = [
            *launch,
            *python,
            *PROGRAM,
            "--output",
            str(output),
            "--limit-s",
            str(limit_s),
            "--record",
            str(timeline),
        ]
        command += ["--cores-per-rank", str(cores_per_rank), "--device", device, *options]
        problem = _run(command, Path(folder) / "output.log", limit_s)
        try:
            report = read_part(AllreduceReport, output)
        except (RecordError, OSError) as error:
            problem = problem or f"the launcher ended well, but the ranks' report is not there: {error}"
            report = AllreduceReport()
        report = add_transfers(report, timeline)
    if problem:
        report = report.model_copy(update={"not_measured": (*report.not_measured, problem)})
    return report


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


def add_transfers(report: AllreduceReport, timeline: Path) -> AllreduceReport:
    """Return a report with the time of each transfer from the timeline of its ranks, or why there is none.

    The repetitions of a size have one name, those that warm up come first: a size whose transfers are not as many as
    its allreduces gets none.
    """
    if not report.samples:
        return report
    try:
        spans = read_timeline(timeline).table
    except ParseError as error:
        return report.model_copy(update={"transfers_missing": (f"no transfer was timed: {error}",)})
    moved = spans[is_allreduce_transfer(spans["activity"])].sort_values("start_s", kind="stable")
    times_s = {str(name): own.to_list() for name, own in moved.groupby("tensor", observed=True)["duration_s"]}
    samples: list[AllreduceSample] = []
    missing: list[str] = []
    for size in dict.fromkeys(sample.size_bytes for sample in report.samples):
        own = [sample for sample in report.samples if sample.size_bytes == size]
        found = times_s.get(tensor_name(size), [])
        if len(found) != WARM_UP + len(own):
            missing.append(f"{size} bytes: {len(found)} transfers in the timeline, expected {WARM_UP + len(own)}")
            samples += own
            continue
        # The timeline counts microseconds: a transfer of 0 is one that is too short for it.
        pairs = zip(own, found[WARM_UP:], strict=True)
        samples += [sample.model_copy(update={"transfer_s": time_s or None}) for sample, time_s in pairs]
    return report.model_copy(update={"samples": tuple(samples), "transfers_missing": tuple(missing)})


def link_rows(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the rows of the view of links: for each size one of the transfer and one of the whole call."""
    rows = [
        _link_row(report, what, size, times_s)
        for what in (TRANSFER, CALL)
        for size, times_s in sorted(_times_of(report, what).items())
    ]
    return pd.DataFrame(rows, columns=list(LINK_COLUMNS)).assign(source=source)


def _times_of(report: AllreduceReport, what: str) -> dict[int, list[float]]:
    """Return the times that were measured of each size."""
    sizes: dict[int, list[float]] = {}
    for sample in report.samples:
        time_s = sample.duration_s if what == CALL else sample.transfer_s
        if time_s is not None:
            sizes.setdefault(sample.size_bytes, []).append(time_s)
    return sizes


def _link_row(report: AllreduceReport, what: str, size_bytes: int, times_s: Sequence[float]) -> dict[str, object]:
    if report.ranks is None:
        raise RecordError("allreduce report: found samples without a number of ranks; measure again")
    time_s = float(np.median(times_s))
    return {
        "what": what,
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


def link_fit_rows(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the rows of the view of link fits, of the transfer and of the whole call: numbers, or NaN and why."""
    links = link_rows(report, source)
    ranks = np.nan if report.ranks is None else report.ranks
    rows = []
    for what in (TRANSFER, CALL):
        own = links[links["what"] == what]
        fit = fit_link(list(own["bytes"]), list(own["time_s"]))
        missing = report.transfers_missing if what == TRANSFER else ()
        reason = "; ".join(filter(None, [*report.not_measured, *missing, fit.reason]))
        row = {"what": what, "scope": scope_of(report), "ranks": ranks, **asdict(fit), "reason": reason}
        rows.append({**row, "source": source})
    return pd.DataFrame(rows)


def allreduce_ceiling(report: AllreduceReport, source: str) -> pd.DataFrame:
    """Return the row of the view of ceilings: the best bus bandwidth of any size, or why there is none.

    That of transfers, which holds those of trainings; of whole calls where the transfers were not timed.
    """
    links = link_rows(report, source)
    timed = TRANSFER if (links["what"] == TRANSFER).any() else CALL
    links = links[links["what"] == timed].reset_index(drop=True)
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
        "setting": f"{best['scope']}, {best['ranks']} ranks, {say_bytes(int(best['bytes']))}, "
        f"bus bandwidth of the {timed}",
        "value": fastest,
        "median": median,
        "n": int(best["n"]),
        "spread_ratio": (fastest - slowest) / median,
        "ways": len(links),
        "reason": "; ".join(report.not_measured),
    }
    return pd.DataFrame([row], columns=list(COLUMNS)).assign(source=source)
