"""Advice for each profiled run: an interpretation of its numbers, and the setting to change.

A rule whose inputs were not measured gives no advice. All settings named are columns of the run table
(``fusion_bytes``, ``cycle_time_s``, ``compression``, ``global_batch``, ``accumulation``, ``precision``) or fields of a
benchmark file (``staging``, ``pack``).
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.core.text import say_bytes, say_share, say_time
from hpcai.metrics.profiles.advice_exchange import (
    Exchange,
    Finding,
    Row,
    advise_communication,
    find_disturbance,
    number,
    or_not,
)
from hpcai.metrics.profiles.kernel_rules import name_category
from hpcai.metrics.profiles.link import of_engine
from hpcai.metrics.roofline.samples_above import SHARED, STAGING, fastest_read

COLUMNS = columns_of("advice")
MOST = 2
"""Sentences per run and topic, the most important first; nobody tries a third before the first two."""
ARRANGEMENT_LARGE = 0.10
"""Share of kernel time without computation: HPC AI500 V2.0, Fig. 10, shows what such kernels can cost."""
COPY_LARGE = 0.10
"""Share of kernel time in copies between host and device; a prefetching pipeline needs a few per cent."""
OTHER_LARGE = 0.20
"""Share of kernel time without a matching rule: a fifth can hide any of the other findings."""
LAUNCH_BOUND_S = 10e-6
"""Mean kernel time on a GPU: a launch takes 5 to 10 µs, so shorter kernels leave the device idle between them."""
GPU_TOOLS = ("nvprof", "ncu", "nsys", "nsight")
PRECISION_GAIN = 1.5
"""Speed-up from which another precision is worth a trial despite its rounding."""
DENSE_LARGE = 0.5
"""Share of convolution and GEMM from which their precision determines the overall rate."""
INPUT_LARGE, INPUT_SMALL = 0.5, 0.1
"""Time to read one epoch, over the epoch: from a half, small disturbances stall training; a tenth is easily hidden."""
METADATA_LARGE = 0.3
"""Share of metadata in all I/O time: above it, the number of files costs more than the number of bytes."""
SMALL_READ_BYTES = 2.0**16
"""Mean read size: at 1 ms latency and 1 GB/s of a shared file system, 64 KiB wait 15 times as long as they transfer."""
IN_PLACE = "fewer, larger files; packed shards can be read in place (staging place none with pack codec none)"
STORAGE_FULL = 0.7
"""Share of the measured rate of shared storage: the remainder is less than the spread between readers."""

INPUT_TOO_SLOW = Message(
    "advice.input_too_slow",
    "Reading the input for an epoch takes {epochs} times the epoch itself: stage to node-local storage (staging place "
    "node_local), or "
    "cache.",
)
STAGED_TOO_SLOW = Message(
    "advice.staged_too_slow",
    "Reading the input for an epoch takes {epochs} times the epoch itself: fewer samples per node (staging partition "
    "split) stay in its "
    "memory.",
)
INPUT_SLOW = Message(
    "advice.input_slow",
    "Input takes {share} of an epoch's time and is hidden only if nothing disturbs it: stage to node-local storage "
    "(staging place node_local).",
)
STAGED_SLOW = Message(
    "advice.staged_slow", "Input takes {share} of an epoch's time and is hidden only if nothing disturbs it."
)
STORAGE_IS_FULL = Message(
    "advice.storage_is_full",
    "The readers reach {share} of the shared storage's rate: more workers would not help, but faster storage would "
    "(staging place node_local).",
)
LITTLE_INPUT = Message("advice.little_input", "Nothing to gain: input takes {share} of an epoch's time.")
LITTLE_STAGED_INPUT = Message(
    "advice.little_staged_input",
    "Nothing to gain: input takes {share} of an epoch's time, from node-local storage where it was staged.",
)
LITTLE_CACHED_INPUT = Message(
    "advice.little_cached_input",
    "Input takes {share} of an epoch's time, but the page cache was {cache}: this says nothing about a first epoch "
    "from cold storage.",
)
MANY_OPENS = Message(
    "advice.many_opens",
    "Opening and looking up files takes {share} of the I/O time ({opens} opens of {files} files): {cure}.",
)
SMALL_READS = Message("advice.small_reads", "Reads are small, {size} on average: {cure}.")
ARRANGEMENT = Message(
    "advice.arrangement",
    "Data rearrangement takes {share} of kernel time without computing anything: this depends on the tensor layout in "
    "the model's code, not on a setting.",
)
COPIES = Message(
    "advice.copies",
    "Copies take {share} of kernel time: the input reaches the device too late or too often; a 16-bit precision "
    "halves the traffic.",
)
UNKNOWN_KERNELS = Message(
    "advice.unknown_kernels",
    "{share} of kernel time is in kernels that no rule matches: check the table of kernels before drawing conclusions.",
)
NOTHING_STANDS_OUT = Message(
    "advice.nothing_stands_out", "No kernel category is unusual: convolution and GEMM take {share} of kernel time."
)
OTHER_PRECISION = Message(
    "advice.other_precision",
    "Convolution and GEMM take {share} of kernel time, and GEMM in {other} is {times} times as fast as in {own} here: "
    "try precision {other}.",
)
SHORT_KERNELS = Message(
    "advice.short_kernels",
    "Kernels are short, {time} on average over {calls} launches: the device waits for launches; increase the work per "
    "step (global_batch).",
)


def advise(views: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a sentence or two of advice per profiled run and topic, with the numbers behind them.

    If other processes took too much of the machine during a capture, that comes first. It is then the only advice on
    communication, because communicating ranks wait for each other.

    Parameters
    ----------
    views
        ``communication``, ``phases``, ``kernels``, ``io`` and ``captures`` of the profiled runs, and ``links`` and
        ``ceilings``: the machine's measured rates. ``kernels`` may have a column ``precision``, that of the run;
        without it there is no advice on other precisions. Any table may be empty; advice that needs it is then omitted.

    Returns
    -------
    pandas.DataFrame
        ``topic`` (communication, io or kernels), ``benchmark``, ``variant``, ``scale``, ``sentence``, ``evidence``.
    """
    rows: list[tuple[str, ...]] = []
    links, captures, ceilings = views["links"], views["captures"], views["ceilings"]
    for row, _ in _runs(views["communication"]):
        capture = _capture_of(captures, row, "timeline")
        exchange = Exchange(row, _of_run(views["phases"], row), _link_of(links, row), capture)
        rows += _take("communication", row, advise_communication(exchange))
    for row, part in _runs(views["io"]):
        disturbed = find_disturbance(_capture_of(captures, row, "io"))
        rows += _take("io", row, (*disturbed, *advise_io(part, fastest_read(ceilings, SHARED))))
    for row, part in _runs(views["kernels"]):
        disturbed = find_disturbance(_capture_of(captures, row, "kernels"))
        rows += _take("kernels", row, (*disturbed, *advise_kernels(part, ceilings)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _runs(view: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield the first row and all rows of each run."""
    for _, part in view.groupby("run_id", sort=False) if len(view) else ():
        yield part.iloc[0].to_dict(), part


def _capture_of(captures: pd.DataFrame, row: Row, profile: str) -> Row:
    """Return the row of the capture behind a run's numbers; empty if there is none."""
    own = _of_run(captures, row)
    own = own[own["profile"] == profile] if len(own) else own
    return own.iloc[0].to_dict() if len(own) else {}


def _take(topic: str, row: Row, findings: Iterable[Finding]) -> Iterator[tuple[str, ...]]:
    source = f"; {row['source']}" if isinstance(row.get("source"), str) and row["source"] else ""
    where = tuple(str(row[name]) for name in POINT)
    for finding in list(findings)[:MOST]:
        yield (topic, *where, finding.sentence, finding.evidence + source)


def _of_run(frame: pd.DataFrame, row: Row) -> pd.DataFrame:
    return frame[frame["run_id"] == row["run_id"]] if len(frame) else frame


def _link_of(links: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Return the transfers measured in the run's scope, inside a node or between nodes."""
    if links.empty:
        return links
    scope = "network" if number(row, "nodes") > 1 else "node"
    at_scale = (links["scope"] == scope) & (links["ranks"] == number(row, "ranks"))
    own = of_engine(links[at_scale & (links["what"] == "transfer")], row.get("engine"))
    known = own[(own["bytes"] > 0) & (own["algorithm_bandwidth_bytes_per_s"] > 0)]
    return known.sort_values("bytes")


def advise_io(io: pd.DataFrame, shared_bytes_per_s: float) -> Iterator[Finding]:
    """Yield advice on the input of one run.

    Parameters
    ----------
    io
        Rows of the view ``io`` of one run: its training input and, as marked in ``data``, its earlier staging. Staging
        happens once, not in every epoch, so it gets no advice here.
    shared_bytes_per_s
        Measured rate of shared storage, the source of input that is not staged; NaN if not measured.
    """
    staging = io["data"] == STAGING if "data" in io else pd.Series(False, index=io.index)
    for row in io[~staging].to_dict("records"):
        yield from _advise_input(row, shared_bytes_per_s, staged=bool(staging.any()))


def _advise_input(row: Row, shared_bytes_per_s: float, *, staged: bool) -> Iterator[Finding]:
    ratio = number(row, "io_epoch_s") / (number(row, "epoch_s") or math.nan)
    cache = str(row.get("page_cache"))
    evidence = f"io_epoch_s / epoch_s = {or_not(ratio)}, page_cache = {cache}"
    if ratio >= 1:
        yield Finding((STAGED_TOO_SLOW if staged else INPUT_TOO_SLOW)(epochs=f"{ratio:.2g}"), evidence)
    elif ratio >= INPUT_LARGE:
        yield Finding((STAGED_SLOW if staged else INPUT_SLOW)(share=say_share(ratio)), evidence)
    if ratio >= INPUT_SMALL:
        yield from _find_small_reads(row)
    rate = number(row, "bandwidth_parallel_bytes_per_s")
    # The page cache serves reads from memory: only a cold read measures the storage.
    if cache == "cold" and ratio >= INPUT_LARGE and not staged and STORAGE_FULL <= rate / shared_bytes_per_s <= 1:
        yield Finding(
            STORAGE_IS_FULL(share=say_share(rate / shared_bytes_per_s)),
            f"bandwidth_parallel_bytes_per_s = {rate:.3g}, storage_read, {SHARED} = {shared_bytes_per_s:.3g} B/s",
        )
    if ratio < INPUT_SMALL:
        if cache == "cold" or staged:
            yield Finding((LITTLE_STAGED_INPUT if staged else LITTLE_INPUT)(share=say_share(ratio)), evidence)
        else:
            yield Finding(LITTLE_CACHED_INPUT(share=say_share(ratio), cache=cache), evidence)


def _find_small_reads(row: Row) -> Iterator[Finding]:
    metadata, reading = number(row, "metadata_s"), number(row, "read_time_s")
    if metadata / (metadata + reading or math.nan) >= METADATA_LARGE:
        share = say_share(metadata / (metadata + reading))
        opens, files = (f"{number(row, name):.0f}" for name in ("opens", "files"))
        yield Finding(
            MANY_OPENS(share=share, opens=opens, files=files, cure=IN_PLACE),
            f"metadata_s = {metadata:.3g}, read_time_s = {reading:.3g}",
        )
    size = number(row, "read_bytes") / (number(row, "reads") or math.nan)
    if size < SMALL_READ_BYTES:
        yield Finding(
            SMALL_READS(size=say_bytes(size), cure=IN_PLACE),
            f"read_bytes = {number(row, 'read_bytes'):.0f}, reads = {number(row, 'reads'):.0f}",
        )


def advise_kernels(kernels: pd.DataFrame, ceilings: pd.DataFrame) -> Iterator[Finding]:
    """Yield advice on the kernels of one run.

    Parameters
    ----------
    kernels
        Rows of the view ``kernels`` of one run.
    ceilings
        Measured rates of GEMM and convolution in each precision.
    """
    shares = kernels.groupby(kernels["category"].astype(str).map(name_category))["share_ratio"].sum().to_dict()
    dense = shares.get("GEMM", 0.0) + shares.get("convolution", 0.0)
    evidence = ", ".join(f"{name} {share:.3f}" for name, share in sorted(shares.items()))
    found: list[str] = []
    if shares.get("data arrangement", 0.0) >= ARRANGEMENT_LARGE:
        found.append(ARRANGEMENT(share=say_share(shares["data arrangement"])))
    if shares.get("memcpy", 0.0) >= COPY_LARGE:
        found.append(COPIES(share=say_share(shares["memcpy"])))
    found += [*_find_precision(kernels, ceilings, dense), *_find_launches(kernels)]
    if shares.get("other", 0.0) >= OTHER_LARGE:
        found.append(UNKNOWN_KERNELS(share=say_share(shares["other"])))
    if not found and dense >= DENSE_LARGE:
        found.append(NOTHING_STANDS_OUT(share=say_share(dense)))
    yield from (Finding(sentence, f"share_ratio: {evidence}") for sentence in found)


def _find_precision(kernels: pd.DataFrame, ceilings: pd.DataFrame, dense: float) -> Iterator[str]:
    own = str(kernels["precision"].iloc[0]) if "precision" in kernels else ""
    if dense < DENSE_LARGE or ceilings.empty or not own:
        return
    best = ceilings[ceilings["kind"] == "gemm"].groupby("precision")["value"].max()
    if own in best and best.max() / best[own] >= PRECISION_GAIN:
        times = f"{best.max() / best[own]:.2g}"
        yield OTHER_PRECISION(share=say_share(dense), other=best.idxmax(), times=times, own=own)


def _find_launches(kernels: pd.DataFrame) -> Iterator[str]:
    if "tool" not in kernels or not str(kernels["tool"].iloc[0]).lower().startswith(GPU_TOOLS):
        return
    calls, total = float(kernels["calls"].sum()), float(kernels["total_s"].sum())
    if calls > 0 and total / calls < LAUNCH_BOUND_S:
        yield SHORT_KERNELS(time=say_time(total / calls), calls=round(calls))
