"""Measure one accelerator from matrix products to training steps: the command `hpcai gpu` and its preconditions."""

import math
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import yaml

from hpcai.config.runs import RunPlan
from hpcai.core.accelerators import find_accelerators, uuids_of, visible_names
from hpcai.core.checkout import source_root
from hpcai.core.disturbance import Disturbance
from hpcai.core.errors import ConfigError, HpcaiError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message, join
from hpcai.core.processor import processor_facts
from hpcai.machine.ceilings import gemm, memory
from hpcai.machine.ceilings.gemm import measure_gemm
from hpcai.machine.ceilings.jax_ways import measure_jax
from hpcai.machine.ceilings.memory import measure_memory
from hpcai.machine.ceilings.sampling import CeilingReport, report_of
from hpcai.machine.steps.engines import require_engine
from hpcai.machine.steps.measure import Case, TooLargeError, model_traffic, time_case
from hpcai.machine.steps.report import PROGRAM, TRACE, StepPrecision, StepReport
from hpcai.machine.subprocess_measure import DeviceKind
from hpcai.measure.gpu_tables import Energy, Measured, ceiling_rows, kernel_rows, step_rows
from hpcai.metrics.cells import number_or_nan
from hpcai.metrics.profiles.energy import power_summary
from hpcai.metrics.profiles.kernels import kernel_breakdown
from hpcai.parsers.device_trace import read_device_trace
from hpcai.parsers.hlo.traffic import read_traffic
from hpcai.parsers.nvml_samples import read_nvml_samples
from hpcai.parsers.rapl import read_rapl
from hpcai.parsers.tensorflow_profile import read_tensorflow_profile
from hpcai.profiles.power.meters import find_power_meters, metered
from hpcai.workloads.registry import WORKLOADS

NO_GPU = Message(
    "gpu.none",
    "{host}: no NVIDIA GPU, neither by NVML nor by nvidia-smi; nothing was started. Call it on a node that has one, "
    "inside a job if the site asks for that; --device cpu tries the same path on the processor",
)
NO_CHECKOUT = Message(
    "gpu.no_checkout", "hpcai: found an installed package, expected a checkout with config/benchmarks; clone it"
)
NO_TF32 = Message("gpu.no_tf32", "not measured: a processor has no TF32")
WHICH_GPU = Message("gpu.which", "not measured: which of the {listed} GPUs is used is not known")
NOT_TRACED = Message("gpu.not_traced", "not measured: {reason}")
NO_PROGRAM = Message(
    "gpu.no_program",
    "not modelled: the engine {engine} does not show the program that it compiled for this device; --engine jax does",
)
PRECISIONS: tuple[StepPrecision, ...] = ("fp32", "tf32", "bf16")
LEAST_BATCH = 1


@dataclass(frozen=True)
class Asked:
    """The requested measurement.

    Attributes
    ----------
    device, engine
        Device and engine.
    tiny
        Use the small benchmarks and time each ceiling once, to test the path.
    seconds
        Time for the steps of one benchmark in one precision [s].
    folder
        Folder for raw files.
    precisions
        Precisions of the steps.
    """

    device: DeviceKind
    engine: str
    tiny: bool
    seconds: float
    folder: Path
    precisions: tuple[StepPrecision, ...] = PRECISIONS

    @property
    def benchmarks(self) -> Mapping[str, int]:
        """Benchmark files and batches."""
        cases = [declared.device_case for declared in WORKLOADS.values() if declared.device_case]
        return dict(case.tiny if self.tiny else case.official for case in cases)


def measure_device(asked: Asked, say: Callable[[str], object]) -> dict[str, pd.DataFrame]:
    """Return the tables ``gpu_ceilings``, ``gpu_steps`` and ``gpu_kernels``.

    A measurement that is not possible becomes a row without a number, with its reason.

    Raises
    ------
    ConfigError
        If the device or a checkout is missing; nothing was started.
    LaunchError, MissingExtraError
        If the engine cannot be started; nothing was started.
    """
    root = require_device(asked)
    cores = len(os.sched_getaffinity(0))
    say("ceilings: products and copies")
    ceilings = measure_ceilings(asked, cores)
    found: list[Measured] = []
    for benchmark, batch in asked.benchmarks.items():
        for precision in asked.precisions:
            say(f"{benchmark} {precision}: training steps, then where their time goes")
            found.append(_measure(asked, plan_of(root, asked, benchmark, precision), batch, precision, say))
    name = next((one.report.device for one in found if one.report), own_name(asked.device))
    roofs = ceiling_rows(ceilings, asked.device, name)
    return {
        "gpu_ceilings": roofs,
        "gpu_steps": step_rows(found, roofs, asked.device, official=not asked.tiny),
        "gpu_kernels": kernel_rows(found, asked.device),
    }


def require_device(asked: Asked) -> Path:
    """Check the prerequisites of a measurement; return the checkout.

    Raises
    ------
    ConfigError, LaunchError, MissingExtraError
        As for `measure_device`.
    """
    if asked.device == "gpu" and not find_accelerators():
        raise ConfigError(NO_GPU(host=socket.gethostname()))
    require_engine(asked.engine, asked.device)
    root = source_root()
    if root is None:
        raise ConfigError(NO_CHECKOUT())
    return root


def plan_of(root: Path, asked: Asked, benchmark: str, precision: StepPrecision) -> RunPlan:
    """Return the plan of one rank on this device with all available cores."""
    cores = len(os.sched_getaffinity(0))
    of_gpu = asked.device == "gpu"
    machine = {
        "name": "this_device",
        "title": "this device",
        "nodes": 1,
        "ranks_per_node": 1,
        "memory_bytes": "1 GiB",
        "cores_per_node": cores,
        "cores_per_rank": cores,
        "storage": {"node_local": "${TMPDIR}"},
        "device": {"kind": asked.device},
        "accelerators_per_node": int(of_gpu),
    }
    point = {"benchmark": benchmark, "variant": precision, "nodes": 1, "ranks_per_node": 1}
    point |= {"precision": precision, "engine": asked.engine}
    settings = yaml.safe_load((root / "config/benchmarks" / f"{benchmark}.yaml").read_text(encoding="utf-8"))
    facts = {"study": "gpu", "repetition": 1, "seed": 1, "rule_set": "hpc_3.0.0", "time_staging": True}
    rest: dict[str, object] = {"limits": {}, "submission": {}, "benchmark": settings, "machine": machine}
    return RunPlan.model_validate({**facts, **rest, "point": point})


def measure_ceilings(asked: Asked, cores: int) -> CeilingReport:
    """Return the ceilings of the device from TensorFlow and, where installed, JAX."""
    measures: list[tuple[Callable[..., CeilingReport], int]] = [
        (measure_gemm, gemm.REPEATS),
        (measure_memory, memory.REPEATS),
    ]
    if find_spec("jax"):
        measures.append((measure_jax, gemm.REPEATS))
    reports = [measure([cores], asked.device, 1 if asked.tiny else repeats) for measure, repeats in measures]
    samples = [sample for report in reports for sample in report.samples]
    missing = [one for report in reports for one in report.not_measured]
    return report_of(samples, missing, tuple(one for report in reports for one in report.disturbance))


def _measure(
    asked: Asked, plan: RunPlan, batch: int, precision: StepPrecision, say: Callable[[str], object]
) -> Measured:
    """Time one case, halving the batch while it is too large; every failure becomes a reason."""
    folder = asked.folder / plan.benchmark.name / precision
    case = Case(plan, asked.engine, precision, batch, asked.seconds, folder)
    if asked.device == "cpu" and precision == "tf32":
        return Measured(case, reason=NO_TF32())
    while True:
        try:
            report, energy, disturbance = _time(case, asked.device, say)
            break
        except TooLargeError as error:
            if case.batch <= LEAST_BATCH:
                return Measured(case, reason=str(error))
            case = Case(plan, asked.engine, precision, case.batch // 2, asked.seconds, folder)
            say(f"{case.name}: too large for the device's memory; tries {case.batch} samples")
        except HpcaiError as error:
            return Measured(case, reason=str(error))
    kernels, kernel_reason = _kernels(case, report, asked.device)
    traffic_bytes, traffic_reason = _traffic(case, report, asked.device)
    return Measured(
        case,
        report=report,
        energy=energy,
        disturbance=disturbance,
        kernels=kernels,
        kernel_reason=kernel_reason,
        traffic_bytes=traffic_bytes,
        traffic_reason=traffic_reason,
    )


def _time(
    case: Case, device: DeviceKind, say: Callable[[str], object]
) -> tuple[StepReport, Energy, tuple[Disturbance, ...]]:
    meters, reasons = find_power_meters()
    own = [meter for meter in meters if meter.instrument == ("nvml" if device == "gpu" else "rapl")]
    case.folder.mkdir(parents=True, exist_ok=True)
    with machine_to_itself(say) as watch, metered(own, case.folder):
        report = time_case(case)
    if not own:
        return report, Energy(reason=join("; ", reasons)), watch.disturbance
    return report, _energy(case.folder, report, own[0].instrument), watch.disturbance


def _energy(folder: Path, report: StepReport, instrument: str) -> Energy:
    """Return the energy of the timed steps: of the accelerator in use only, or of all packages and their memory."""
    path = folder / f"power_{instrument}.csv"
    try:
        reading = read_nvml_samples(path) if instrument == "nvml" else read_rapl(path)
    except HpcaiError as error:
        return Energy(reason=str(error))
    samples = reading.table
    if instrument == "nvml":
        index = own_index()
        if index is None:
            return Energy(reason=WHICH_GPU(listed=samples["device"].nunique()))
        samples = samples[samples["device"].astype(str) == str(index)]
    first, last = report.blocks[0], report.blocks[-1]
    summary = power_summary(samples, instrument, (first.started_s, last.started_s + last.duration_s), reading.reasons)
    steps = sum(block.steps for block in report.blocks)
    wall_s = last.started_s + last.duration_s - first.started_s
    # Samples may miss an end of the window, so the mean power is applied to all of it.
    return Energy(
        per_sample_j=summary.mean_power_w * wall_s / (steps * report.batch),
        mean_power_w=summary.mean_power_w,
        instrument=instrument,
        reason="; ".join(summary.reasons),
    )


def own_index(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the number, in NVML's samples of power, of the accelerator that one process uses here; None if unknown."""
    listed = find_accelerators()
    uuids = uuids_of(visible_names(environment), listed)
    found = [number for number, gpu in enumerate(listed) if uuids and uuids[0] == gpu.uuid]
    return found[0] if found else None


def _kernels(case: Case, report: StepReport, device: DeviceKind) -> tuple[pd.DataFrame | None, str]:
    path = case.folder / TRACE
    if not report.traced_steps:
        return None, NOT_TRACED(reason=report.trace_reason)
    try:
        if device == "gpu":
            return kernel_breakdown(read_device_trace(path).table), ""
        operations = read_tensorflow_profile(path).table
    except HpcaiError as error:
        return None, NOT_TRACED(reason=error)
    grouped = operations.groupby(["name", "kind", "device"], as_index=False)
    return kernel_breakdown(grouped.agg(calls=("self_s", "size"), total_s=("self_s", "sum"))), ""


def _traffic(case: Case, report: StepReport, device: DeviceKind) -> tuple[float, str]:
    """Return the modelled traffic of a sample [bytes], NaN with the reason if there is none.

    JAX's program is read as XLA compiled it for the device. TensorFlow's is compiled for a processor, and says nothing
    of another device, which fuses other operations.
    """
    try:
        if case.engine == "jax":
            traffic = read_traffic(case.folder / PROGRAM)
            return traffic.accessed_bytes / report.batch, traffic.reason
        if device == "gpu":
            return math.nan, NO_PROGRAM(engine=case.engine)
        (hlo,) = [count for count in model_traffic(case).counts if count.method == "hlo"]
    except HpcaiError as error:
        return math.nan, str(error)
    return number_or_nan(hlo.memory_bytes_per_sample), "" if hlo.memory_bytes_per_sample else hlo.reason or ""


def own_name(device: DeviceKind) -> str:
    """Return the model of the processor, or of the first accelerator."""
    if device == "cpu":
        return str(processor_facts().get("model name", "cpu"))
    return find_accelerators()[0].name
