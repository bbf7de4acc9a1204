"""The NVIDIA accelerators available to a process, as listed by the driver: through NVML, else nvidia-smi."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that select accelerators and their order; the first one set counts (AMD's runtime reads all three)."""
ANSWER_LIMIT_S = 60.0
"""Without persistence mode, the first query initialises every accelerator of the node."""
_GPU = re.compile(r"^GPU \d+: (?P<name>.*) \(UUID: (?P<uuid>GPU-[0-9A-Fa-f-]+)\)\s*$")
_PART = re.compile(r"^\s+MIG .*\(UUID: (?P<uuid>MIG-[^)\s]+)\)\s*$")
_UUID_LENGTH = len("GPU-00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True)
class Accelerator:
    """One GPU, and its MIG instances available to this process.

    Attributes
    ----------
    uuid, name
        As reported by the driver.
    parts
        UUIDs of the MIG instances; empty if the GPU is not partitioned.
    """

    uuid: str
    name: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Driver:
    """The driver's version, and the newest CUDA that it supports, as (major, minor)."""

    version: str
    cuda: tuple[int, int]


def find_accelerators() -> tuple[Accelerator, ...]:
    """Return the GPUs available to this process, in PCI bus order; empty if no driver answers.

    ``CUDA_VISIBLE_DEVICES`` does not shorten the list; cgroups do.
    """
    listed = _nvml_accelerators()
    return read_list(_nvidia_smi("-L")) if listed is None else listed


def nvml_handles() -> list[Any]:
    """Return NVML's handles of the GPUs available to this process, in the order of `find_accelerators`.

    Raises
    ------
    pynvml.NVMLError
        If NVML does not answer.
    """
    import pynvml

    pynvml.nvmlInit()
    handles = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        with suppress(pynvml.NVMLError_NoPermission):  # belongs to another job: cgroups hide it from this process
            handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
    return handles


def find_driver() -> Driver | None:
    """Return the NVIDIA driver of this node; None if none answers."""
    import pynvml

    try:
        pynvml.nvmlInit()
        version, cuda = pynvml.nvmlSystemGetDriverVersion(), int(pynvml.nvmlSystemGetCudaDriverVersion())
    except pynvml.NVMLError:
        return read_driver(_nvidia_smi())
    return Driver(version, (cuda // 1000, cuda % 1000 // 10))


def read_list(text: str) -> tuple[Accelerator, ...]:
    """Parse the accelerators in the output of ``nvidia-smi -L``."""
    found: list[Accelerator] = []
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            found.append(Accelerator(gpu["uuid"], gpu["name"]))
        elif found and (part := _PART.match(line)):
            last = found[-1]
            found[-1] = Accelerator(last.uuid, last.name, (*last.parts, part["uuid"]))
    return tuple(found)


def read_driver(text: str) -> Driver | None:
    """Parse the driver in the heading of ``nvidia-smi``."""
    version = re.search(r"Driver Version:\s*([\d.]+)", text)
    cuda = re.search(r"CUDA(?: UMD)? Version:\s*(\d+)\.(\d+)", text)
    return Driver(version[1], (int(cuda[1]), int(cuda[2]))) if version and cuda else None


def visible_names(environment: Mapping[str, str]) -> list[str] | None:
    """Return the accelerators selected by the environment, as named there; None without a selection."""
    chosen = next((environment[name] for name in VISIBLE if environment.get(name)), None)
    return None if chosen is None else [name.strip() for name in chosen.split(",")]


def uuids_of(visible: list[str] | None, listed: tuple[Accelerator, ...]) -> list[str]:
    """Return the UUIDs of the visible accelerators in the runtime's order (PCI bus order); blank if unknown.

    Parameters
    ----------
    visible
        Names as returned by `visible_names`: indexes, UUIDs or prefixes of UUIDs.
    listed
        All accelerators available to this process.
    """
    names = [str(index) for index in range(len(listed))] if visible is None else visible
    return [_uuid_of(name, listed) for name in names]


def model_of(uuid: str, listed: tuple[Accelerator, ...]) -> str:
    """Return the model of the GPU with a UUID, its own or that of one of its parts; blank if unknown."""
    return next((gpu.name for gpu in listed if uuid in (gpu.uuid, *gpu.parts)), "")


def _uuid_of(name: str, listed: tuple[Accelerator, ...]) -> str:
    if name.isdecimal():
        return _own(listed[int(name)]) if int(name) < len(listed) else ""
    if name.startswith("MIG-"):
        parts = [part for gpu in listed for part in gpu.parts if part.startswith(name)]
        return parts[0] if len(parts) == 1 else name
    matches = [gpu for gpu in listed if gpu.uuid.startswith(name)]
    if len(matches) == 1:
        return _own(matches[0])
    return name if name.startswith("GPU-") and len(name) == _UUID_LENGTH and not listed else ""


def _own(gpu: Accelerator) -> str:
    """Return the device behind this GPU; with several MIG instances, it is unknown."""
    if len(gpu.parts) > 1:
        return ""
    return gpu.parts[0] if gpu.parts else gpu.uuid


def _nvml_accelerators() -> tuple[Accelerator, ...] | None:
    """Return the accelerators from NVML; None without it."""
    import pynvml

    try:
        return tuple(
            Accelerator(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), _nvml_parts(handle))
            for handle in nvml_handles()
        )
    except pynvml.NVMLError:
        return None


def _nvml_parts(handle: Any) -> tuple[str, ...]:  # noqa: ANN401  a handle of NVML has no type
    import pynvml

    parts = []
    try:
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except (pynvml.NVMLError_NotFound, pynvml.NVMLError_NoPermission):
                continue
            parts.append(pynvml.nvmlDeviceGetUUID(part))
    except pynvml.NVMLError_NotSupported:
        return ()
    return tuple(parts)


def _nvidia_smi(*options: str) -> str:
    """Return the output of nvidia-smi; empty if it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run([program, *options], capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
