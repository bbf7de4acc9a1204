"""Collect the origin of every number: code, software, machine, environment. Nothing is declared by hand."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hpcai.core.checkout import source_root
from hpcai.core.files import file_sha256
from hpcai.core.processor import processor_facts
from hpcai.launchers.registry import LAUNCHERS

if TYPE_CHECKING:  # loads pyarrow
    from hpcai.data.packed import PackManifest

PACKAGES = (
    *("hpcai", "tensorflow-cpu", "tensorflow", "keras", "horovod", "jax", "numpy", "mlperf-logging", "snakemake"),
    *("nvidia-cudnn-cu12", "nvidia-nccl-cu12"),
)
PREFIXES = (
    *("CUDA_", "DNNL_", "HOROVOD_", "HPCAI_", "KMP_", "MKL_", "NCCL_", "OMP_", "ONEDNN_"),
    *("LOADEDMODULES", "OPENBLAS_", "SLURM_", "XLA_", "LD_PRELOAD", "TMPDIR"),
    # List TensorFlow's own prefixes: Terraform uses TF_CLI_, TF_VAR_ and TF_TOKEN_, also for credentials.
    *("TF_AUTO_MIXED_PRECISION", "TF_AUTOTUNE_", "TF_CPP_", "TF_CUBLAS_", "TF_CUDA_", "TF_CUDNN_"),
    *("TF_DETERMINISTIC_OPS", "TF_DISABLE_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_MKL_", "TF_NUM", "TF_ONEDNN_"),
    *("TF_OVERRIDE_GLOBAL_THREADPOOL", "TF_SYNC_ON_FINISH", "TF_USE_", "TF_XLA_"),
)
"""Prefixes of variables that control the programs; launchers declare their own."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|JWT|AUTH(?!OR)|COOKIE|PRIVATE", re.IGNORECASE)
"""Names of variables that suggest a credential; SLURM_JWT is Slurm's access token."""

KERNEL_SETTINGS = {
    "cpu_governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "numa_balancing": "/proc/sys/kernel/numa_balancing",
    "transparent_hugepages": "/sys/kernel/mm/transparent_hugepage/enabled",
}
"""What a site sets that changes speed, and where the kernel tells it."""


def environment_lock(prefix: str | Path = sys.prefix) -> str:
    """Return the name of the lock file that an environment was built from, as recorded by envs/install.py."""
    note = Path(prefix) / "installed.json"
    noted = json.loads(note.read_text()) if note.is_file() else {}
    return str(noted.get("lock", "requirements.lock"))


def code_facts() -> tuple[str | None, bool | None, str | None]:
    """Return commit, dirty flag and SHA-256 of the environment's lock file; None without a checkout."""
    root = source_root()
    if root is None:
        return None, None, None
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    # Snakemake writes below the checkout, so only changes to tracked files count as changed code.
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return commit or None, None if commit is None else bool(changes), file_sha256(root / environment_lock())


def software_facts() -> dict[str, str]:
    """Return the versions of the computing software."""
    versions = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": "-".join(platform.libc_ver()),
    }
    versions["operating_system"] = _os_name()
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    for name, command in (item for one in LAUNCHERS.values() for item in one.versions.items()):
        told = _output(*command) if shutil.which(command[0]) else None
        if told:
            versions[name] = told.splitlines()[0]
    return versions


def machine_facts() -> dict[str, str | int | float | None]:
    """Return the operating system's facts about this node."""
    cpu = processor_facts()
    frequency = psutil.cpu_freq()
    return {
        "hostname": platform.node(),
        "architecture": platform.machine(),
        "cpu_model": cpu.get("model name"),
        "cpu_cache": cpu.get("cache size"),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": psutil.cpu_count(),
        "cpu_frequency_max_hz": frequency.max * 1e6 if frequency and frequency.max else None,
        "memory_bytes": psutil.virtual_memory().total,
        "bf16_instructions": "yes" if {"avx512_bf16", "amx_bf16"} & set(cpu.get("flags", "").split()) else "no",
        "accelerators": _accelerators(),
        **{name: kernel_setting(Path(file)) for name, file in KERNEL_SETTINGS.items()},
    }


def kernel_setting(file: Path) -> str | None:
    """Return a setting of the kernel, of a list the one in brackets; None if it is not told, as in virtual machines."""
    try:
        told = file.read_text(encoding="ascii").strip()
    except OSError:
        return None
    chosen = re.search(r"\[(\w+)\]", told)
    return chosen[1] if chosen else told


def environment_facts(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that control the programs, without any whose name suggests a secret.

    Parameters
    ----------
    environment
        Variables by name; defaults to those of this process. Records of earlier versions pass their own.
    """
    values = os.environ if environment is None else environment
    beginnings = (*PREFIXES, *(start for launcher in LAUNCHERS.values() for start in launcher.environment))
    return {
        name: value
        for name, value in sorted(values.items())
        if name.startswith(beginnings) and not SECRET.search(name) and name.isprintable()
    }


def digest_pack(pack: "PackManifest") -> str:
    """Return the SHA-256 of a packing's content, independent of the time that packing took.

    The manifest contains the CRC-32C of each shard, so equal data packed twice have the same digest. Older records hold
    the SHA-256 of the whole ``packed.json``; no decision about a run depends on either.
    """
    return pack.digest


@cache
def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _accelerators() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    listed = _output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    return "; ".join(listed.splitlines()) if listed else None


def _output(*command: str) -> str | None:
    """Return the output of a program; None if it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
