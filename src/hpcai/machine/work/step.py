"""Floating-point work of a training step: by its layers' formula, and from XLA's compiled program.

The two counts are independent: the formula uses the sizes in a benchmark file, the other adds up the convolutions and
dots of the compiled step. Padding counts as work in both, holes between the values of a dilated gradient in neither
(`hpcai.parsers.hlo.counting`). The compiled step also yields modelled memory traffic (`hpcai.parsers.hlo.traffic`).
TensorFlow's own counter is not used: it is wrong for gradients in three dimensions.
"""

import argparse
import importlib
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.errors import HpcaiError
from hpcai.core.lean_imports import NEEDLESS, without
from hpcai.machine.work.compiled_step import CompiledStep, Stage, StepReading
from hpcai.records.files import write_sealed

if TYPE_CHECKING:
    from hpcai.training.work import LayerWork
    from hpcai.training.workload import Workload

Statistics = Mapping[str, tuple[float, ...]]
Method = Literal["formula", "formula_sixfold", "hlo"]
CHANNELS = 16
MOST_SAMPLES = 8
"""Maximum batch to compile: work is proportional to the batch, but a detector's text grows with it."""
NEUTRAL_STATISTICS: Statistics = {
    "mean": (0.0,) * CHANNELS,
    "standard_deviation": (1.0,) * CHANNELS,
    "minval": (0.0,) * CHANNELS,
    "maxval": (1.0,) * CHANNELS,
    "force_standard_deviation": (1.0,),
}
"""Substitutes, without a manifest, for statistics that scale data but not work."""
FILLED = "for a batch as compiled, with what fills it up; the work of real data is the formula's"


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LayerShare(_Report):
    """One layer of the formula."""

    name: str
    forward_mac: int = Field(description="Multiply-adds of the forward pass for one sample.")
    needs_input_gradient: bool
    share_ratio: float = Field(description="Of the operations of a training step.")


class WorkCount(_Report):
    """Operations of training by one counting method; blank with a reason if that failed."""

    method: Method
    flop_per_sample: float | None = None
    flop_per_step: float | None = None
    ratio_to_formula: float | None = Field(default=None, description="To the formula for a batch of the same size.")
    reason: str | None = None
    remark: str | None = None
    memory_bytes_per_sample: float | None = Field(
        default=None, description="Modelled: bytes accessed by the step as XLA compiled it for `HloCount.samples`."
    )


class HloCount(_Report):
    """Basis of the count from HLO."""

    stage: Stage
    stage_reason: str
    samples: int = Field(description="Samples of the compiled batch; the work is proportional to it.")
    precision: str
    instructions: int = Field(description="Convolutions and dots.")
    flop_per_batch: dict[Stage, float] = Field(description="As compiled, by stage.")
    data_flop_per_batch: float = Field(description="Without multiplications with padding.")
    formula_flop_per_batch: float = Field(description="The formula for a batch as compiled, with what fills it up.")
    memory_bytes_per_batch: float | None = Field(
        default=None, description="Modelled: operands read and results written by each compiled instruction."
    )
    compulsory_bytes_per_batch: float | None = Field(
        default=None, description="Modelled: weights and batch read, gradients written, each once; a lower bound."
    )
    memory_remark: str | None = Field(default=None, description="Why there is no traffic, or what it leaves out.")
    substituted: tuple[str, ...] = Field(description="Operations that XLA lacks and what stands in for them.")
    reasons: tuple[str, ...] = Field(description="What of the compiled step could not be counted.")


class WorkReport(_Report):
    """The work of one benchmark's training step."""

    benchmark: str
    workload: str
    variant: str
    samples_per_step: int = Field(description="Samples of an optimizer step over all ranks.")
    forward_mac_per_sample: int | None = None
    counts: tuple[WorkCount, ...]
    layers: tuple[LayerShare, ...] = ()
    hlo: HloCount | None = None
    tensorflow: str
    assumed: tuple[str, ...] = Field(default=(), description="Statistics that were not given and do not change work.")


def count_work(
    plan: RunPlan,
    statistics: Statistics | None = None,
    *,
    samples: int | None = None,
    stage: Stage = "optimized_hlo",
    keep: Path | None = None,
) -> WorkReport:
    """Count the work of a plan's training step.

    Parameters
    ----------
    plan
        What is trained.
    statistics
        Statistics of the training data from the manifest; only graphs need them.
    samples
        Size of the batch to compile; by default the plan's micro-batch, but at most 8.
    stage
        ``hlo`` skips the compiler's optimisation, which takes up to two minutes and 1.2 GB at official sizes (measured
        on two cores). Otherwise the optimised form is counted, unless it hides the work (`HloCount.stage_reason`).
    keep
        Folder for the HLO text, some megabytes; by default it is discarded.
    """
    import tensorflow as tf

    from hpcai.training.work import computed_flop

    workload = workload_of_one_rank(plan, statistics, samples)
    report = {
        "benchmark": plan.benchmark.name,
        "workload": plan.benchmark.workload,
        "variant": plan.point.variant,
        "samples_per_step": plan.global_batch,
        "tensorflow": tf.__version__,
        "assumed": tuple(sorted(set(NEUTRAL_STATISTICS) - set(statistics or {}))),
    }
    try:
        layers = workload.layers()
    except HpcaiError as error:
        counts = tuple(WorkCount(method=method, reason=f"not counted: {error}") for method in _METHODS)
        return WorkReport(**report, counts=counts)
    formulas = _formula_counts(layers, plan.global_batch)
    hlo, reason = _count_hlo(workload, stage, keep)
    return WorkReport(
        **report,
        forward_mac_per_sample=sum(layer.forward_mac for layer in layers),
        counts=(*formulas, _hlo_count(hlo, reason, plan.global_batch, computed_flop(layers, 1))),
        layers=_shares(layers),
        hlo=hlo,
    )


_METHODS: tuple[Method, ...] = ("formula", "formula_sixfold", "hlo")


def workload_of_one_rank(
    plan: RunPlan, statistics: Statistics | None = None, samples: int | None = None, engine: str = "tensorflow"
) -> "Workload[Any]":
    """Return what one rank trains on its own micro-batch: no exchange, no accumulation.

    Parameters
    ----------
    plan
        What is trained.
    statistics
        Statistics of the training data from the manifest; neutral ones replace missing ones.
    samples
        Size of the batch; by default the plan's micro-batch, but at most 8.
    engine
        What trains it. Work is counted as TensorFlow has it: others may compute the same with more products.
    """
    from hpcai.training.registry import workload_of

    alone = {"nodes": 1, "ranks_per_node": 1, "accumulation": 1, "batchnorm_group": 1, "spatial_parts": 1}
    batch = samples or min(plan.micro_batch, MOST_SAMPLES)
    point = plan.point.model_copy(update={**alone, "global_batch": batch, "engine": engine})
    return workload_of(plan.model_copy(update={"point": point}), {**NEUTRAL_STATISTICS, **(statistics or {})})


def _formula_counts(layers: Sequence["LayerWork"], samples: int) -> tuple[WorkCount, ...]:
    from hpcai.training.work import computed_flop, sixfold_flop

    computed = computed_flop(layers, 1)
    return tuple(
        WorkCount(
            method=method,
            flop_per_sample=count(layers, 1),
            flop_per_step=count(layers, samples),
            ratio_to_formula=count(layers, 1) / computed,
        )
        for method, count in (("formula", computed_flop), ("formula_sixfold", sixfold_flop))
    )


def _shares(layers: Sequence["LayerWork"]) -> tuple[LayerShare, ...]:
    from hpcai.training.work import computed_flop

    total = computed_flop(layers, 1)
    return tuple(
        LayerShare(
            name=layer.name,
            forward_mac=layer.forward_mac,
            needs_input_gradient=layer.needs_input_gradient,
            share_ratio=computed_flop([layer], 1) / total,
        )
        for layer in layers
    )


def _hlo_count(hlo: HloCount | None, reason: str | None, samples: int, real: float) -> WorkCount:
    """Return the count for ``samples``; ``real`` is the formula's number for one sample without padding."""
    if hlo is None:
        return WorkCount(method="hlo", reason=reason)
    moved = None if hlo.memory_bytes_per_batch is None else hlo.memory_bytes_per_batch / hlo.samples
    if reason is not None:
        return WorkCount(method="hlo", reason=reason, memory_bytes_per_sample=moved)
    flop = hlo.flop_per_batch[hlo.stage]
    return WorkCount(
        method="hlo",
        flop_per_sample=flop / hlo.samples,
        flop_per_step=flop / hlo.samples * samples,
        ratio_to_formula=flop / hlo.formula_flop_per_batch,
        remark=None if hlo.formula_flop_per_batch == real * hlo.samples else FILLED,
        memory_bytes_per_sample=moved,
    )


def _count_hlo(workload: "Workload[Any]", stage: Stage, keep: Path | None) -> tuple[HloCount | None, str | None]:
    """Return the count and, if it must not be used, the reason."""
    import tensorflow as tf

    try:
        step = CompiledStep(workload)
        with tempfile.TemporaryDirectory(prefix="hpcai-hlo-") as folder:
            reading = step.read(keep or Path(folder), stage)
    except (HpcaiError, ValueError, tf.errors.OpError) as error:
        return None, f"not counted: {str(error).splitlines()[0][:500]}"
    used = reading.readings[reading.used]
    hlo = _hlo_report(workload, reading, step.substituted)
    return hlo, None if used.is_whole else f"not counted: {used.reasons[0]}"


def _hlo_report(workload: "Workload[Any]", step: StepReading, substituted: set[str]) -> HloCount:
    from hpcai.training.work import computed_flop

    plan, used = workload.plan, step.readings[step.used]
    done = used.table[used.table["executions"] > 0]
    return HloCount(
        stage=step.used,
        stage_reason=step.why,
        samples=plan.micro_batch,
        precision=plan.point.precision,
        instructions=len(done),
        flop_per_batch={stage: float(one.table["total_flop"].sum()) for stage, one in step.readings.items()},
        data_flop_per_batch=2 * float((done["data_multiply_adds"] * done["executions"]).sum()),
        formula_flop_per_batch=computed_flop(workload.batch_layers(), plan.micro_batch),
        memory_bytes_per_batch=_known(step.traffic.accessed_bytes),
        compulsory_bytes_per_batch=_known(step.traffic.compulsory_bytes),
        memory_remark=step.traffic.reason or None,
        substituted=tuple(sorted(substituted)),
        reasons=used.reasons,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def main(arguments: list[str] | None = None) -> None:
    """Write the work of a plan's training step as JSON."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.machine.work.step", description=main.__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of a run")
    parser.add_argument("--manifest", type=Path, help="manifest.json of the dataset; only graphs need it")
    parser.add_argument("--output", type=Path, help="file for the report; by default it is printed")
    parser.add_argument(
        "--samples", type=int, help="size of the batch to compile; by default the micro-batch, at most 8"
    )
    parser.add_argument("--stage", choices=("hlo", "optimized_hlo"), default="optimized_hlo")
    parser.add_argument("--keep", type=Path, help="folder for the HLO text")
    given = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Always use the processor's compiler, so that the count does not depend on the machine.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with without(*NEEDLESS):
        importlib.import_module("tensorflow")
    statistics = read_statistics(given.manifest)
    report = count_work(read_plan(given.plan), statistics, samples=given.samples, stage=given.stage, keep=given.keep)
    write_report(report, given.output)


def read_statistics(manifest: Path | None) -> Statistics | None:
    """Return the training data statistics from a manifest; None without one."""
    from hpcai.data.manifest import read_manifest

    return read_manifest(manifest).statistics if manifest else None


def write_report(report: BaseModel, output: Path | None) -> None:
    """Write a report as JSON with its digest atomically; print it if no file is named."""
    if output:
        write_sealed(report, output)
    else:
        print(report.model_dump_json(indent=1))


if __name__ == "__main__":
    main()
