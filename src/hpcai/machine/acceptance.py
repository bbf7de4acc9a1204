"""Measure one node for an acceptance: `python -m hpcai.machine.acceptance --parts compute memory scratch ...`.

The node writes its measurements to a file of its own, so that one that fails or hangs costs no other its result.
"""

import argparse
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hpcai.config.machine import this_node
from hpcai.core.errors import HpcaiError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.machine.ceilings.memory import measure_memory
from hpcai.machine.ceilings.sampling import Kind, Sample
from hpcai.machine.ceilings.storage import measure_storage
from hpcai.machine.ceilings.sustained import PRECISIONS, Repeats, measure_sustained
from hpcai.machine.subprocess_measure import Options, say_error, say_lacking_cores
from hpcai.records.acceptance import Series
from hpcai.records.files import write_json

logger = logging.getLogger(__name__)
MODULE = "hpcai.machine.acceptance"
ALONE = ("compute", "memory", "scratch")
"""Parts that nodes measure at the same time; ``shared`` is the storage that they share."""
STREAMS = 4
"""Files that are written and read at once."""
COPIES = 12
"""Copies in a repetition of the memory: each takes some milliseconds, too short to notice a throttled node."""
SLOWEST_S = 600.0
"""Time for starting, and for methods that are slow here, beyond that of the repetitions [s]."""
NO_SAMPLE = Message("acceptance.no_sample", "no method of this machine gave a rate")
READ, DIRECT, WRITE = "read", "read, O_DIRECT", "write and fsync"
_STORAGE: dict[Kind, tuple[str, ...]] = {"storage_write": (WRITE,), "storage_read": (READ, DIRECT)}


class NodeSeries(BaseModel):
    """What one node measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    series: tuple[Series, ...]


def result_file(folder: Path, node: str, parts: Sequence[str]) -> Path:
    """Return the file of a node's parts."""
    return folder / f"{node}.{'-'.join(parts)}.json"


def measure_node(asked: argparse.Namespace) -> Iterator[Series]:
    """Yield the measurements of this node; a part that fails is one without values."""
    measures: dict[str, Callable[[], Iterable[Series]]] = {
        "compute": partial(_compute, asked),
        "memory": partial(_memory, asked),
        "scratch": partial(_storage, asked, "scratch", asked.scratch),
        "shared": partial(_storage, asked, "shared storage", asked.shared),
    }
    for part in asked.parts:
        try:
            yield from measures[part]()
        except (HpcaiError, OSError, ValueError, MemoryError) as error:
            logger.warning("%s: %s", part, error)
            yield _missing(MEASURES[part], say_error(error), failed=True)


MEASURES = {
    "compute": f"gemm {PRECISIONS['cpu'][0]}",
    "memory": "memory copy",
    "scratch": f"scratch {WRITE}",
    "shared": f"shared storage {WRITE}",
}
"""Measurement that stands for a part that failed as a whole."""


def _missing(measure: str, reason: str, *, failed: bool) -> Series:
    node, unit = this_node(), "FLOP/s" if measure.startswith("gemm") else "B/s"
    fields = {"kind": "node", "subject": node, "nodes": (node,), "measure": measure, "unit": unit}
    return Series.model_validate({**fields, "reason": reason, "failed": failed})


def _compute(asked: argparse.Namespace) -> Iterator[Series]:
    """Yield the rates of the processor, then those of all accelerators, which work at the same time."""
    with machine_to_itself(logger.info):
        if lacking := say_lacking_cores(asked.cores):
            yield _missing(MEASURES["compute"], lacking, failed=True)
        else:
            yield from _series_of(_sustained(asked, Options(asked.cores, "cpu", asked.repeats)), this_node())
        visible = visible_accelerators(asked.accelerators)
        if visible:
            with ThreadPoolExecutor(len(visible)) as pool:
                for found in pool.map(partial(_accelerator, asked), enumerate(visible)):
                    yield from found


def _sustained(asked: argparse.Namespace, options: Options, **variables: str) -> list[Sample]:
    limit_s = SLOWEST_S + asked.longest_s
    return measure_sustained(options, _repeats(asked, asked.repeats), asked.window_s, limit_s, **variables)


def visible_accelerators(count: int) -> list[str]:
    """Return the accelerators of this node as CUDA_VISIBLE_DEVICES names them; one that it hides stays as a number."""
    named = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    return (named + list(map(str, range(len(named), count))))[:count]


def _accelerator(asked: argparse.Namespace, place: tuple[int, str]) -> list[Series]:
    number, name = place
    subject = f"{this_node()} accelerator {number}"
    try:
        samples = _sustained(asked, Options(1, "gpu", asked.repeats), CUDA_VISIBLE_DEVICES=name)
        return list(_series_of(samples, subject, "accelerator"))
    except (HpcaiError, OSError, ValueError) as error:
        lost = _missing(MEASURES["compute"], say_error(error), failed=True)
        return [lost.model_copy(update={"kind": "accelerator", "subject": subject})]


def _series_of(samples: Sequence[Sample], subject: str, kind: str = "node") -> Iterator[Series]:
    """Yield one series for each kind and precision."""
    ways = dict.fromkeys((one.kind, one.precision) for one in samples)
    if not ways:
        yield _missing(MEASURES["compute"], NO_SAMPLE(), failed=True).model_copy(
            update={"kind": kind, "subject": subject}
        )
    for way in ways:
        own = [one for one in samples if (one.kind, one.precision) == way]
        first = own[0]
        yield Series.model_validate({
            "kind": kind,
            "subject": subject,
            "nodes": (this_node(),),
            "measure": f"{first.kind} {first.precision}".strip(),
            "unit": first.unit,
            "values": tuple(one.value for one in own),
            "setting": f"{first.backend}, {first.setting}, {first.threads} threads",
        })  # fmt: skip


def _repeats(asked: argparse.Namespace, least: int) -> Repeats:
    return Repeats(least, asked.precision, asked.longest_s)


def _memory(asked: argparse.Namespace) -> Iterator[Series]:
    rates: dict[str, list[float]] = {"copy": [], "add": []}
    reason = ""
    for _ in _repeats(asked, 1).rounds(rates.values):
        report = measure_memory([asked.cores], repeats=asked.repeats * COPIES)
        reason = "; ".join(one.reason for one in report.not_measured)
        if reason:
            break
        for operation in rates:
            samples = [one for one in report.samples if one.backend == f"numpy {operation}"]
            rates[operation] += _rates_of_blocks(samples, COPIES)
    for operation, values in rates.items():
        if values:
            done = {"values": tuple(values), "setting": f"{asked.cores} threads"}
            yield _missing(f"memory {operation}", "", failed=False).model_copy(update=done)
    # Perhaps the job has too little memory; where other nodes have enough, the comparison says so.
    if reason and not rates["copy"]:
        yield _missing(MEASURES["memory"], reason, failed=False)


def _rates_of_blocks(samples: Sequence[Sample], size: int) -> Iterator[float]:
    """Yield the rate over each block of neighbouring samples: total work over total time."""
    for start in range(0, len(samples) - size + 1, size):
        block = samples[start : start + size]
        yield sum(one.work for one in block) / sum(one.duration_s for one in block)


def _storage(asked: argparse.Namespace, place: str, folder: str) -> Iterator[Series]:
    rates: dict[str, list[float]] = {}
    for _ in _repeats(asked, 1).rounds(rates.values):
        report = measure_storage({place: folder}, int(asked.file_bytes), (STREAMS,), asked.repeats)
        for one in report.samples:
            if one.counts:  # a read from memory is none
                rates.setdefault(one.backend, []).append(one.value)
    for kind, backends in _STORAGE.items():
        reason = "; ".join(one.reason for one in report.not_measured if one.kind == kind)
        for backend in backends:
            series = _missing(f"{place} {backend}", reason, failed=False)
            if backend in rates:
                done = {"values": tuple(rates[backend]), "setting": f"{STREAMS} files at once", "reason": ""}
                yield series.model_copy(update=done)
            elif backend != DIRECT:  # which not every file system has
                yield series


def main() -> None:
    """Measure this node, and write its file."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Measure one node for an acceptance.")
    parser.add_argument("--parts", nargs="+", choices=(*ALONE, "shared"), required=True)
    parser.add_argument("--output", type=Path, required=True, help="folder for the node's file")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--accelerators", type=int, default=0)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--precision", type=float, required=True, help="standard error that ends repetitions")
    parser.add_argument("--longest-s", type=float, required=True, help="time of one measurement's repetitions")
    parser.add_argument("--window-s", type=float, required=True)
    parser.add_argument("--file-bytes", type=float, required=True)
    parser.add_argument("--scratch", required=True, help="node-local folder")
    parser.add_argument("--shared", required=True, help="folder on shared storage")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    found = NodeSeries(node=this_node(), series=tuple(measure_node(asked)))
    write_json(found, result_file(asked.output, found.node, asked.parts))


if __name__ == "__main__":
    main()
