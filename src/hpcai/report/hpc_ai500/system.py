"""Part 1 of the report document: the system under test, including its run-time software."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.machine import Link
from hpcai.core.text import say_bytes, say_rate
from hpcai.launchers.registry import LAUNCHERS, launcher_of
from hpcai.metrics.profiles.link import TRANSFER, of_engine, say_misfit
from hpcai.metrics.roofline.columns import INTRA_NODE
from hpcai.metrics.roofline.links import WHAT, LinkRate, link_rate
from hpcai.metrics.roofline.model import ring_traffic
from hpcai.report.hpc_ai500.evidence import Evidence
from hpcai.report.hpc_ai500.model import Item, Part, agreed, missing, not_applicable, present

SOURCE = "system.json"
NODE = "processors and accelerators of a node, with their parameters"
WITHIN = "links within a node"
SYSTEM = "operating system"
SOFTWARE = "run-time software of a node"
NETWORK = "network between nodes"
WHOLE = "run-time software of the whole system"

_COLLECTED = (
    (NODE, "Processor", "cpu_model", ""),
    (NODE, "Architecture of the processor", "architecture", ""),
    (NODE, "Physical cores of a node", "cores_physical", ""),
    (NODE, "Logical cores of a node", "cores_logical", ""),
    (NODE, "Highest clock frequency", "cpu_frequency_max_hz", "Hz"),
    (NODE, "Cache of the processor", "cpu_cache", ""),
    (NODE, "Memory of a node", "memory_bytes", "byte"),
)
_VERSIONS = (
    (SYSTEM, "Operating system", ("operating_system",)),
    (SYSTEM, "Kernel", ("kernel",)),
    (SOFTWARE, "C library", ("libc",)),
    (SOFTWARE, "Python", ("python",)),
    (SOFTWARE, "TensorFlow", ("tensorflow", "tensorflow-cpu")),
    (SOFTWARE, "Keras", ("keras",)),
    (SOFTWARE, "NumPy", ("numpy",)),
    (SOFTWARE, "HPC-AI Bench", ("hpcai",)),
)
MOST_HOSTS = 8
"""Number of hosts named in the document."""
_ASK_AGAIN = "measure on a system that shows it to the program; a virtual machine hides some of it"


def describe_system(evidence: Evidence) -> Part:
    """Return part 1: the system that ran the benchmark."""
    items = [
        *_nodes(evidence),
        *_accelerators(evidence),
        *_rates(evidence),
        *_links(evidence),
        *_versions(evidence),
        *_network(evidence),
        *_whole_system(evidence),
    ]
    return Part(
        title="System under test",
        rule="Parameters of the processors and accelerators of a node, links within a node, operating system and "
        "run-time software of a node; network between nodes and run-time software of the whole system.",
        section="HPC AI500 V2.0, 6.3.3 (1)",
        items=tuple(items),
    )


def _nodes(evidence: Evidence) -> Iterator[Item]:
    records, machine = evidence.records, evidence.machine
    hosts = {rank.placement.hostname for record in records for rank in record.ranks}
    hosts |= {str(record.provenance.machine_facts.get("hostname") or "") for record in records} - {""}
    used = max(record.plan.point.nodes for record in records)
    named = f"{used} ({_some(hosts)})" if hosts else str(used)
    yield present(NODE, "Most nodes in a run", named, method="collected", source=SOURCE)
    facts = [record.provenance.machine_facts for record in records]
    only_one = "of the node that started the runs; the others were not asked" if used > 1 else ""
    declared = {"memory_bytes": say_bytes(machine.memory_bytes), "cores_physical": str(machine.cores_per_node)}
    for demand, name, key, unit in _COLLECTED:
        value = agreed(fact.get(key) for fact in facts)
        if value is None:
            yield missing(demand, name, "the operating system did not report it", _ASK_AGAIN)
            continue
        notes = [f"the machine file declares {declared[key]}"] if key in declared else []
        note = "; ".join([*notes, *([only_one] if only_one else [])])
        yield present(demand, name, value, unit=unit, method="collected", source=SOURCE, note=note)
    yield present(
        NODE, "Cores of each rank", machine.cores_per_rank, method="declared", source=SOURCE, note=_placement(evidence)
    )


def _some(hosts: set[str]) -> str:
    """Name the first hosts; system.json lists all."""
    ordered = sorted(hosts, key=lambda host: (len(host), host))
    more = len(ordered) - MOST_HOSTS
    return ", ".join(ordered[:MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")


def _placement(evidence: Evidence) -> str:
    """Report the observed number of cores and threads of the ranks."""
    places = [rank.placement for record in evidence.records for rank in record.ranks]
    cores = sorted({len(place.cores) for place in places})
    threads = sorted({place.threads for place in places})
    if not places:
        return "no rank reported where it ran"
    return f"observed: {_either(cores)} core(s) and {_either(threads)} thread(s) a rank"


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _accelerators(evidence: Evidence) -> Iterator[Item]:
    machine, device = evidence.machine, evidence.machine.device
    found = agreed(record.provenance.machine_facts.get("accelerators") for record in evidence.records)
    if device.kind == "cpu":
        unused = f"; nvidia-smi lists some that no rank used: {found}" if found else ""
        yield not_applicable(NODE, "Accelerators", f"the runs computed on processors (device.kind: cpu){unused}")
        return
    yield present(
        NODE, "Accelerators of a node", machine.accelerators_per_node, method="declared", source=SOURCE,
        note="observed by nvidia-smi: " + (str(found) if found else "nothing, or there is no nvidia-smi"),
    )  # fmt: skip
    for name, value, unit, key in (
        ("Accelerator", device.model, "", "device.model"),
        ("Memory of an accelerator", device.memory_bytes, "byte", "device.memory_bytes"),
    ):
        if value:
            yield present(NODE, name, value, unit=unit, method="declared", source=SOURCE)
        else:
            yield missing(NODE, name, "not declared", f"fill `{key}` of the {evidence.machine_file}")


def _rates(evidence: Evidence) -> Iterator[Item]:
    """Yield the peak rate in each precision used, and the bandwidth of the device's memory."""
    device = evidence.machine.device
    what = "an accelerator" if device.kind == "gpu" else "a rank's cores"
    for precision in sorted({record.plan.point.precision for record in evidence.records}):
        name, peak = f"Peak rate of {what}, {precision}", device.peaks.get(precision)
        if peak:
            yield present(
                NODE, name, peak.rate_flop_per_s, unit="FLOP/s", method="declared", source=SOURCE, note=peak.source
            )
        else:
            key = f"device.peaks.{precision}"
            action = f"fill `{key}` of the {evidence.machine_file}: dense rate, and where it was read"
            yield missing(NODE, name, "not declared", action)
    yield _link(evidence, NODE, f"Memory bandwidth of {what}", device.memory_link, "device.memory_link")


def _links(evidence: Evidence) -> Iterator[Item]:
    name, declared = "Links within a node", evidence.machine.links.intra_node
    if declared is None and all(record.plan.point.ranks_per_node == 1 for record in evidence.records):
        yield not_applicable(WITHIN, name, "every run had one rank per node: there was no communication within a node")
        return
    measured = rate_within_node(evidence)
    if declared is not None or math.isnan(measured.rate_bytes_per_s):
        yield _link(evidence, WITHIN, name, declared, "links.intra_node")
        return
    words = "; ".join(part for part in (measured.name, measured.note) if part)
    yield present(
        WITHIN, name, measured.rate_bytes_per_s, unit="B/s", method="measured", source=SOURCE,
        note=f"bus bandwidth of an allreduce among ranks of one node: {words}; source "
        f"{evidence.place(measured.source)}; which hardware carries it was not declared (`links.intra_node`)",
    )  # fmt: skip


def rate_within_node(evidence: Evidence) -> LinkRate:
    """Return the bus bandwidth among the ranks of a node: the best measured one, as in the roofline.

    Without measured messages it comes from the fitted line; the note gives the quality of the line. If runs have
    several engines, the fastest counts.
    """
    engines = sorted({record.plan.point.engine for record in evidence.records}) or [USUAL_ENGINE]
    found = [_rate_of_engine(evidence, engine) for engine in engines]
    return max(found, key=lambda one: -math.inf if math.isnan(one.rate_bytes_per_s) else one.rate_bytes_per_s)


def _rate_of_engine(evidence: Evidence, engine: str) -> LinkRate:
    links, fits = (of_engine(evidence.frames[name], engine) for name in ("links", "link_fits"))
    fit = fits[(fits["scope"] == "node") & (fits["what"] == TRANSFER)].dropna(subset="bandwidth_bytes_per_s")
    within = links[links["scope"] == "node"]
    timed = within[within["what"] == TRANSFER]
    ranks = next((int(rows["ranks"].max()) for rows in (timed, within, fit) if len(rows)), 1)
    fit = fit[fit["ranks"] == ranks].head(1)
    line = "; ".join(_say_fit(row, ranks) for _, row in fit.iterrows())
    best = link_rate(links, fits, INTRA_NODE, 1, ranks)
    if not math.isnan(best.rate_bytes_per_s):
        name = f"{best.name}, {ranks} ranks, the fastest timing of all message sizes"
        return replace(best, name=name, note="; ".join(part for part in (best.note, line) if part))
    for _, row in fit.iterrows():
        rate = ring_traffic(float(row["bandwidth_bytes_per_s"]), ranks)
        return LinkRate(rate, f"{WHAT[TRANSFER]}, {ranks} ranks, of a fitted line", line, str(row["source"]))
    return best


def _say_fit(fit: "pd.Series[Any]", ranks: int) -> str:
    """Describe the line fitted over all message sizes, with its error and its deviation."""
    rate, error = (
        ring_traffic(float(fit.get(f"bandwidth{part}_bytes_per_s", math.nan)), ranks) for part in ("", "_error")
    )
    misfit = float(fit.get("misfit_ratio", math.nan))
    bounds = "its error is not known" if math.isnan(error) else f"standard error {say_rate(error)}"
    line = f"the line latency + size / bandwidth over all sizes gives {say_rate(rate)}"
    return f"{line} ({bounds}; {say_misfit(misfit)})"


def _network(evidence: Evidence) -> Iterator[Item]:
    name, declared = "Network between nodes", evidence.machine.links.network
    if all(record.plan.point.nodes == 1 for record in evidence.records):
        yield not_applicable(NETWORK, name, "every run used one node")
        return
    yield _link(evidence, NETWORK, name, declared, "links.network")


def _link(evidence: Evidence, demand: str, name: str, link: Link | None, key: str) -> Item:
    if link is None:
        action = f"fill `{key}` of the {evidence.machine_file}: bandwidth of one direction, and where it was read"
        return missing(demand, name, "not declared", action)
    note = link.source
    return present(demand, name, link.bandwidth_bytes_per_s, unit="B/s", method="declared", source=SOURCE, note=note)


def _versions(evidence: Evidence) -> Iterator[Item]:
    versions = [record.provenance.software for record in evidence.records]
    for demand, name, keys in _VERSIONS:
        value = agreed(next((f"{known[key]}" for key in keys if key in known), None) for known in versions)
        yield _version(demand, name, value)
    if evidence.machine.device.kind == "cpu":
        yield not_applicable(SOFTWARE, "CUDA, cuDNN, NCCL", "no accelerator is used")
        return
    for name, variable in (("CUDA", "CUDA_VERSION"), ("NCCL", "NCCL_VERSION"), ("cuDNN", "")):
        value = agreed(record.provenance.environment.get(variable) for record in evidence.records)
        if value is None:
            action = (
                f"set {variable} in the environment of the job, as NVIDIA's containers do" if variable
                else "name it when the document is submitted"
            )  # fmt: skip
            yield missing(SOFTWARE, name, "the records hold no version of it", action)
        else:
            yield _version(SOFTWARE, name, value)


def _version(demand: str, name: str, value: object) -> Item:
    if value is None:
        return missing(demand, name, "the records hold no version of it", f"install {name} where the program finds it")
    return present(demand, name, str(value), method="collected", source=SOURCE)


def _whole_system(evidence: Evidence) -> Iterator[Item]:
    versions = [record.provenance.software for record in evidence.records]
    yield _version(WHOLE, "Horovod", agreed(known.get("horovod") for known in versions))
    used = {launcher_of(record) for record in evidence.records}
    launchers = agreed(launcher_of(record) for record in evidence.records)
    if launchers is None:
        yield missing(WHOLE, "Launcher", "the recorded command names none", "start the runs by `hpcai measure`")
    else:
        yield present(WHOLE, "Launcher", launchers, method="collected", source="source/commands.sh")
    with_mpi = [name for name, launcher in LAUNCHERS.items() if launcher.uses_mpi]
    library = agreed(known.get("mpi") for known in versions)
    if used.intersection(with_mpi):
        yield _version(WHOLE, "MPI", library)
    else:
        reason = f"no run was started by {' or '.join(with_mpi)}: Horovod's controller is Gloo"
        yield not_applicable(WHOLE, "MPI", reason)
    yield _batch_system(evidence, lambda name: name.startswith("SLURM_"))
    shared = evidence.machine.storage.shared
    if shared:
        yield present(WHOLE, "Shared storage", shared, method="declared", source=SOURCE)
    else:
        action = f"fill `storage.shared` of the {evidence.machine_file}"
        yield missing(WHOLE, "Shared storage", "not declared", action)


def _batch_system(evidence: Evidence, of_slurm: Callable[[str], bool]) -> Item:
    count = sum(any(map(of_slurm, record.provenance.environment)) for record in evidence.records)
    if not count:
        return not_applicable(WHOLE, "Batch system", "no record holds a variable of Slurm: the runs started without it")
    partitions = agreed(record.provenance.environment.get("SLURM_JOB_PARTITION") for record in evidence.records)
    where = f", partition {partitions}" if partitions else ""
    value = f"Slurm{where}; {count} of {len(evidence.records)} runs"
    return present(WHOLE, "Batch system", value, method="collected", source=SOURCE)
