"""The system file: collected and declared facts about a machine, in the fields that MLPerf requires."""

from collections.abc import Iterable, Mapping
from typing import Any

from hpcai.core.text import say_bytes, say_rate
from hpcai.mlperf_hpc.submission.model import OpenPoint, Submission, SubmittedSystem
from hpcai.mlperf_hpc.submission.precision import say_precision
from hpcai.records.run import RunRecord

NOT_APPLICABLE = "N/A"
NOT_COLLECTED = "not collected, because programs cannot read it reliably"
_STACK = ("python", "numpy", "mpi", "libc", "kernel", "mlperf-logging")
_TENSORFLOW, _KERAS = ("TensorFlow", ("tensorflow", "tensorflow-cpu")), ("Keras", ("keras",))
_FRAMEWORK = {
    "horovod": (_TENSORFLOW, _KERAS, ("Horovod", ("horovod",))),
    "tensorflow": (_TENSORFLOW, _KERAS),
    "jax": (("JAX", ("jax",)), _KERAS, _TENSORFLOW),
}
"""By engine; with jax, TensorFlow still reads the samples."""
_HAND = (
    "system_type", "system_type_detail", "host_processors_per_node", "host_processor_interconnect",
    "host_storage_capacity", "host_memory_configuration", "cooling",
)  # fmt: skip
"""Fields that no program fills in."""
_ACCELERATOR = (
    "accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories",
    "accelerator_memory_configuration", "accelerator_interconnect_topology",
)  # fmt: skip
"""Fields of accelerators that no program fills in; a machine without accelerators lacks them."""
_NETWORK = ("host_networking", "host_networking_topology", "host_network_card_count")


def system_fields(submission: Submission, system: SubmittedSystem) -> dict[str, Any]:
    """Return the fields of a system file in the order of MLPerf's own table; unknown values are blank.

    References
    ----------
    MLPerf submission rules, <system_desc_id>.json metadata; mlperf_logging, system_desc_checker (33 fields).
    """
    facts = _Facts(system.records)
    return {
        "submitter": submission.org,
        "division": submission.division,
        "system_type": "",
        "system_type_detail": "",
        "status": submission.status,
        "system_name": system.name,
        "number_of_nodes": str(system.nodes),
        **_processors(facts),
        **_memory_and_storage(facts),
        **_network(facts, system),
        **_accelerators(facts, system),
        "cooling": "",
        "hw_notes": _hardware_notes(facts, system),
        **_software(facts, system),
    }


def open_points(place: str, fields: Mapping[str, Any]) -> list[OpenPoint]:
    """Return every blank field of a system file, with instructions."""
    return [OpenPoint(place, name, _why_blank(name)) for name, value in fields.items() if value in ("", {})]


def frameworks_of(engines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the frameworks that engines train with, each with the packages that may hold it."""
    return dict(one for engine in sorted(set(engines)) for one in _FRAMEWORK[engine])


class _Facts:
    """Facts shared by all records of a system."""

    def __init__(self, records: tuple[RunRecord, ...]) -> None:
        self.records, self.machine = records, records[0].plan.machine

    def of_machine(self, key: str) -> str | int | float | None:
        return _agreed(record.provenance.machine_facts.get(key) for record in self.records)

    def version(self, names: tuple[str, ...]) -> str:
        found = _agreed(
            next((record.provenance.software[name] for name in names if name in record.provenance.software), None)
            for record in self.records
        )
        return str(found or "")


def _agreed(values: Iterable[str | int | float | None]) -> str | int | float | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _text(value: str | int | float | None) -> str:
    return "" if value is None else str(value)


def _processors(facts: _Facts) -> dict[str, str]:
    frequency = facts.of_machine("cpu_frequency_max_hz")
    return {
        "host_processors_per_node": "",
        "host_processor_model_name": _text(facts.of_machine("cpu_model")),
        "host_processor_core_count": _text(facts.of_machine("cores_physical")),
        "host_processor_vcpu_count": _text(facts.of_machine("cores_logical")),
        "host_processor_frequency": f"{say_rate(float(frequency), 'Hz')} at most" if frequency else "",
        "host_processor_caches": _text(facts.of_machine("cpu_cache")),
        "host_processor_interconnect": "",
    }


def _memory_and_storage(facts: _Facts) -> dict[str, str]:
    memory = facts.of_machine("memory_bytes")
    return {
        "host_memory_capacity": say_bytes(float(memory)) if memory else "",
        "host_memory_configuration": "",
        "host_storage_type": facts.machine.storage.shared,
        "host_storage_capacity": "",
    }


def _network(facts: _Facts, system: SubmittedSystem) -> dict[str, str]:
    if system.nodes == 1:
        return dict.fromkeys(_NETWORK, NOT_APPLICABLE)
    link = facts.machine.links.network
    declared = f"{say_rate(link.bandwidth_bytes_per_s)} in one direction ({link.source})" if link else ""
    return dict.fromkeys(_NETWORK, "") | {"host_networking": declared}


def _accelerators(facts: _Facts, system: SubmittedSystem) -> dict[str, str]:
    machine, device = facts.machine, facts.machine.device
    count = {"accelerators_per_node": str(system.accelerators_per_node)}
    names = ("accelerator_model_name", *_ACCELERATOR, "accelerator_memory_capacity", "accelerator_interconnect")
    if device.kind == "cpu":
        return count | dict.fromkeys(names, NOT_APPLICABLE)
    link, alone = machine.links.intra_node, system.nodes == 1 and machine.accelerators_per_node == 1
    known = {
        "accelerator_model_name": device.model,
        "accelerator_memory_capacity": say_bytes(device.memory_bytes) if device.memory_bytes else "",
        "accelerator_interconnect": f"{say_rate(link.bandwidth_bytes_per_s)} ({link.source})" if link else "",
    }
    if alone:
        known["accelerator_interconnect"] = NOT_APPLICABLE
    return count | dict.fromkeys(names, "") | known


def _hardware_notes(facts: _Facts, system: SubmittedSystem) -> str:
    machine = facts.machine
    notes = ["numbers of cores are those of a node as the operating system shows them"]
    if system.nodes > 1:
        notes.append("processor and memory are those of the node that started the runs")
    points = {record.plan.point.ranks_per_node for record in facts.records}
    ranks = " or ".join(str(number) for number in sorted(points))
    notes.append(f"{ranks} rank(s) on a node with {machine.cores_per_rank} core(s) each")
    return "; ".join(notes)


def _software(facts: _Facts, system: SubmittedSystem) -> dict[str, Any]:
    frameworks = frameworks_of(record.plan.point.engine for record in facts.records)
    names = ((name, facts.version(keys)) for name, keys in frameworks.items())
    stack = {name: facts.version((name,)) for name in _STACK}
    accelerators = _text(facts.of_machine("accelerators"))
    known = {name: version for name, version in stack.items() if version}
    if facts.machine.device.kind == "gpu" and accelerators:
        known["nvidia-smi"] = accelerators
    return {
        "framework": ", ".join(f"{name} {version}" for name, version in names if version),
        "other_software_stack": known,
        "operating_system": facts.version(("operating_system",)),
        "sw_notes": _software_notes(system),
    }


def _software_notes(system: SubmittedSystem) -> str:
    """Describe the precision of computation and communication, and the code and environment of the runs."""
    records = system.records
    precisions = sorted({say_precision(record.plan) for record in records})
    exchanged = sorted({record.plan.point.compression for record in records})
    locks = sorted({(record.provenance.lock_sha256 or "")[:12] for record in records} - {""})
    commits = sorted({record.provenance.commit or "" for record in records} - {""})
    notes = [f"precision: {' or '.join(precisions)}", f"compression of gradients: {', '.join(exchanged)}"]
    notes += [f"HPC-AI Bench, commit {', '.join(commits)}"] if commits else []
    notes += [f"requirements.lock with SHA-256 {', '.join(locks)}..."] if locks else []
    return "; ".join(notes)


def _why_blank(name: str) -> str:
    if name in _HAND or name in _ACCELERATOR or name in _NETWORK:
        declared = {
            "host_networking": " or declare `links.network` in the machine file and measure anew",
        }.get(name, "")
        return f"{NOT_COLLECTED}; fill it in{declared}"
    if name == "host_storage_type":
        return "the machine file does not declare `storage.shared`; fill it in"
    if name.startswith("accelerator"):
        return "the machine file does not declare it; fill it in"
    return "the operating system did not tell the program, or the runs disagree; fill it in"
