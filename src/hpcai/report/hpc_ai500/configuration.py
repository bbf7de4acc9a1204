"""Part 2 of the report document: hyper-parameters, and communication between ranks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpcai.config.base import Engine
from hpcai.config.runs import RunPlan
from hpcai.core.text import say_bytes, say_time
from hpcai.launchers.registry import LAUNCHERS, launcher_of
from hpcai.records.run import RunRecord
from hpcai.report.hpc_ai500.evidence import Evidence
from hpcai.report.hpc_ai500.model import Column, Item, Part, Table, Value, agreed, missing, not_applicable, present

SOURCE = "configuration.json"
SETTINGS = "all hyper-parameters"
EXCHANGE = "description of the communication: topology, compression, fusion"
GROUPS = {
    "model": "Model",
    "recipe": "Optimizer and schedule",
    "data": "Data",
    "target": "Target quality",
    "staging": "Staging",
    "pack": "Packing of the data",
}
"""Sections of a benchmark file, and their display names."""
RINGS: dict[Engine, str] = {
    "horovod": "ring: Gloo's default, which Horovod leaves as it is "
    "(horovod/common/ops/gloo_operations.cc, gloo/allreduce.cc); no record observes it",
    "tensorflow": "ring: what TensorFlow takes unless NCCL is asked for "
    "(tensorflow/core/common_runtime/collective_param_resolver_local.cc); no record observes it",
    "jax": "ring: what XLA for processors asks Gloo for (xla/pjrt/cpu/gloo_collectives.cc); no record observes it",
}
"""How each engine exchanges on processors, and TensorFlow on accelerators; Horovod if it does so over Gloo."""
TOPOLOGY_VARIABLES = ("NCCL_ALGO", "HOROVOD_HIERARCHICAL_ALLREDUCE", "OMPI_MCA_coll_tuned_allreduce_algorithm")
POINT_COLUMNS = (
    Column(name="variant"), Column(name="scale"), Column(name="engine"), Column(name="ranks"),
    Column(name="precision"), Column(name="compression"), Column(name="global batch", unit="samples"),
    Column(name="batch of a rank", unit="samples"),
    Column(name="micro-batches of a step"), Column(name="ranks that share batch-norm statistics"),
    Column(name="fusion"), Column(name="cycle time"), Column(name="steps of an epoch"), Column(name="runs"),
    Column(name="seeds"),
)  # fmt: skip


def describe_configuration(evidence: Evidence) -> Part:
    """Return part 2: every setting, and a description of the communication."""
    return Part(
        title="Configuration",
        rule="All hyper-parameters; a description of the communication (topology, compression, fusion).",
        section="HPC AI500 V2.0, 6.3.3 (2)",
        items=(*_hyperparameters(evidence), *_communication(evidence)),
        tables=(_points(evidence), _settings(evidence)),
    )


def _hyperparameters(evidence: Evidence) -> Iterator[Item]:
    settings = [record.plan.benchmark for record in evidence.records]
    for group, name in GROUPS.items():
        count = len(_flat(getattr(settings[0], group).model_dump(mode="json")))
        yield present(
            SETTINGS, name, f"{count} settings", method="declared", source=SOURCE, note="each in the table of settings"
        )
    for name, value_of in (
        ("Engine", lambda plan: plan.point.engine),
        ("Global batch [samples]", lambda plan: plan.global_batch),
        ("Precision", lambda plan: plan.point.precision),
        ("Micro-batches of a step", lambda plan: plan.point.accumulation),
        ("Ranks that share batch-norm statistics", lambda plan: plan.point.batchnorm_group),
        ("Epochs", lambda plan: plan.benchmark.recipe.max_epochs),
    ):  # type: tuple[str, Callable[[RunPlan], Value]]
        yield present(SETTINGS, name, _by_variant(evidence, value_of), method="declared", source=SOURCE)
    seeds = sorted({record.plan.seed for record in evidence.records if record.plan.seed is not None})
    if seeds:
        value = f"{len(seeds)} different ones in {len(evidence.records)} runs"
        yield present(SETTINGS, "Seeds", value, method="collected", source=SOURCE)
    else:
        yield missing(SETTINGS, "Seeds", "no record holds one", "measure the runs again")


def _communication(evidence: Evidence) -> Iterator[Item]:
    parallel = "data parallel, synchronous: gradients are averaged over all ranks in every step"
    yield present(EXCHANGE, "Parallel mode", parallel, method="declared", source=SOURCE)
    if all(record.plan.point.ranks == 1 for record in evidence.records):
        for name in ("Topology of the allreduce", "Compression of gradients", "Fusion of gradients"):
            yield not_applicable(EXCHANGE, name, "every run had one rank: nothing was exchanged")
        return
    yield _topology(evidence)
    compression = _by_variant(evidence, lambda plan: plan.point.compression)
    yield present(EXCHANGE, "Compression of gradients", compression, method="declared", source=SOURCE)
    yield present(EXCHANGE, "Fusion of gradients", _by_variant(evidence, _fusion), method="declared", source=SOURCE)
    yield present(
        EXCHANGE, "Cycle time of Horovod", _by_variant(evidence, _cycle_time), method="declared", source=SOURCE
    )


def _topology(evidence: Evidence) -> Item:
    name = "Topology of the allreduce"
    distributed = [record for record in evidence.records if record.plan.point.ranks > 1]
    if any(record.plan.point.allreduce_topology != "default" for record in distributed):
        ways = _by_variant(evidence, lambda plan: plan.point.allreduce_topology)
        return present(EXCHANGE, name, ways, method="declared", source=SOURCE)
    chosen = {text for record in distributed for text in _chosen_topology(record)}
    if chosen:
        return present(EXCHANGE, name, "; ".join(sorted(chosen)), method="collected", source="system.json")
    rings = {_ring_of(record) for record in distributed}
    if all(rings):
        return present(EXCHANGE, name, "; ".join(sorted(rings)), method="declared", source="source/commands.sh")
    action = (
        f"choose it by {', '.join(TOPOLOGY_VARIABLES[:2])} or the MPI library's own setting, which the record keeps"
    )
    return missing(EXCHANGE, name, "MPI or NCCL chose it, and no record has the choice", action)


def _chosen_topology(record: RunRecord) -> Iterator[str]:
    if record.plan.point.engine == "tensorflow":
        return  # it reads none of them
    for variable in TOPOLOGY_VARIABLES:
        if variable in record.provenance.environment:
            yield f"{variable}={record.provenance.environment[variable]}"


def _ring_of(record: RunRecord) -> str:
    """Return what the run's engine does by itself; blank where a library decides."""
    engine = record.plan.point.engine
    has_ring = {
        "horovod": _uses_gloo(record),
        "tensorflow": True,
        "jax": record.plan.machine.device.kind == "cpu",
    }
    return RINGS[engine] if has_ring[engine] else ""


def _uses_gloo(record: RunRecord) -> bool:
    launcher = LAUNCHERS.get(launcher_of(record))
    return launcher is not None and launcher.gloo_option in set(record.provenance.command) - {""}


def _fusion(plan: RunPlan) -> str:
    if plan.point.engine == "jax":
        return "left to XLA, whose program exchanges"
    if plan.point.gradient_groups > 1:
        return f"{plan.point.gradient_groups} groups, those of the last layers first"
    if plan.point.fusion_bytes is None:
        return "all gradients as one group (default)"
    return f"single gradients up to {say_bytes(plan.point.fusion_bytes)}"


def _cycle_time(plan: RunPlan) -> str:
    if plan.point.engine != "horovod":
        return f"none: the engine is {plan.point.engine}"
    return "Horovod's own choice" if plan.point.cycle_time_s is None else say_time(plan.point.cycle_time_s)


def _by_variant(evidence: Evidence, value_of: Callable[[RunPlan], Value]) -> Value:
    """Return the value shared by all plans; otherwise the values of each variant."""
    variants: dict[str, list[Value]] = {}
    for record in evidence.records:
        values = variants.setdefault(record.plan.point.variant, [])
        value = value_of(record.plan)
        if value not in values:
            values.append(value)
    if len({tuple(values) for values in variants.values()}) == 1 and len(values) == 1:
        return values[0]
    return "; ".join(f"{name}: {' or '.join(map(str, values))}" for name, values in variants.items())


def _points(evidence: Evidence) -> Table:
    points: dict[tuple[str, str], list[RunPlan]] = {}
    for record in evidence.records:
        points.setdefault((record.plan.point.variant, record.plan.point.scale), []).append(record.plan)
    return Table(
        title="Settings of each variant and scale",
        columns=POINT_COLUMNS,
        rows=tuple(_point_row(plans) for plans in points.values()),
    )


def _point_row(plans: list[RunPlan]) -> tuple[Value | None, ...]:
    plan, point = plans[0], plans[0].point
    return (
        point.variant, point.scale, point.engine, point.ranks, point.precision, point.compression, plan.global_batch,
        plan.local_batch, point.accumulation, point.batchnorm_group, _fusion(plan), _cycle_time(plan), plan.epoch_steps,
        len(plans), ", ".join(str(one.seed) for one in plans),
    )  # fmt: skip


def _settings(evidence: Evidence) -> Table:
    dumps = [_flat(record.plan.benchmark.model_dump(mode="json")) for record in evidence.records]
    names = list(dict.fromkeys(name for dump in dumps for name in dump))
    rows = tuple((name, agreed(_text(dump.get(name)) for dump in dumps)) for name in names)
    return Table(
        title="Settings of the benchmark",
        columns=(Column(name="setting"), Column(name="value")),
        rows=rows,
        note="Keys of the benchmark file, defaults included; an empty value is a setting that was left blank.",
        folded=True,
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Return nested settings with dotted keys."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat.update(_flat(value, f"{name}.") if isinstance(value, dict) else {name: value})
    return flat


def _text(value: object) -> object:
    """Return a setting's value in readable form."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
