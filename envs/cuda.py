"""Choose the compiler for Horovod with NCCL: a site's CUDA toolkit, otherwise the compiler from the CUDA 13 wheels.

TensorFlow's wheels contain CUDA 12 and NCCL, but no compiler; the CUDA 13 wheels contain one. Horovod's few kernels
link its runtime statically, so that nothing of CUDA 13 stays in the environment.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
            "nvidia-cuda-culibos")  # fmt: skip
"""Packages of requirements-cuda.lock that are not installed in the environment."""
LIBRARIES = ("nvidia-nccl-cu12",)
"""Packages that a build needs in addition to TensorFlow, if the lock has them."""
OLDEST, WHEELS = 12, 13
"""CUDA releases: TensorFlow's wheels contain 12, wheels with a compiler 13."""
OLDEST_DRIVER = {12: 525, 13: 580}
"""Oldest driver by release of the runtime (docs.nvidia.com/cuda/cuda-toolkit-release-notes, "CUDA Driver")."""
ARCHITECTURES = {12: "70,80,90", 13: "80,90"}
"""Compute capabilities for which Horovod's kernels are compiled; CUDA 13 does not support 70."""
DRIVER = Path("/proc/driver/nvidia/version")


class UnusableError(Exception):
    """No compiler is usable whose programs would run on this machine's accelerators; the message gives the reason."""


@dataclass(frozen=True)
class Toolkit:
    """A CUDA compiler.

    Attributes
    ----------
    release
        Major number of the release.
    identity
        Everything that determines its output, for the key of a wheel.
    home
        Folder of a site's toolkit; None: the wheels' compiler, not yet installed.
    """

    release: int
    identity: str
    home: Path | None = None


def find_toolkit(locked: str) -> Toolkit:
    """Return the compiler to use: a site's own, otherwise that of the wheels, identified by its lock entries.

    Raises
    ------
    UnusableError
        If this machine's driver is too old for it.
    """
    toolkit = site_toolkit() or Toolkit(WHEELS, locked)
    needed, found = OLDEST_DRIVER[min(toolkit.release, WHEELS)], driver()
    if found and found < needed:
        raise UnusableError(
            f"CUDA {toolkit.release} needs driver {needed} or newer, this machine's is {found}; "
            "load a module of CUDA 12 with nvcc"
        )
    return toolkit


def site_toolkit() -> Toolkit | None:
    """Return the toolkit of HOROVOD_CUDA_HOME, or of the nvcc on the PATH; None if it is older than 12."""
    named = os.environ.get("HOROVOD_CUDA_HOME")
    nvcc = shutil.which(f"{named}/bin/nvcc" if named else "nvcc")
    if nvcc is None:
        return None
    version = _output(nvcc, "--version")
    release = re.search(r"release (\d+)\.", version)
    # nvcc on the PATH may be a wrapper script.
    top = re.search(r"^#\$ TOP=(.+)$", _output(nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null"), flags=re.MULTILINE)
    if release is None or top is None or int(release[1]) < OLDEST:
        return None
    return Toolkit(int(release[1]), version, Path(top[1].strip()).resolve())


def driver() -> int | None:
    """Return the driver's major version; None on a machine without a driver, such as a login node."""
    found = re.search(r"Kernel Module.*?\s(\d+)\.\d+", DRIVER.read_text()) if DRIVER.is_file() else None
    return int(found[1]) if found else None


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def settings(toolkit: Toolkit) -> dict[str, str]:
    """Return the build variables that affect Horovod's binary."""
    return {
        "HOROVOD_GPU": "CUDA",
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_LINK": "SHARED",  # NCCL's wheel has no static library
        "HOROVOD_BUILD_CUDA_CC_LIST": ARCHITECTURES[min(toolkit.release, WHEELS)],
    }


def link_toolkit(home: Path) -> None:
    """Add the names that a linker expects to the wheels' compiler."""
    (home / "lib64").symlink_to("lib")
    for library in (home / "lib").glob("libcudart.so.*"):
        (home / "lib/libcudart.so").symlink_to(library.name)


def link_nccl(venv: Path, folder: Path) -> None:
    """Create a folder in which a build finds the environment's NCCL: its wheel has no `libnccl.so`."""
    (wheel,) = venv.glob("lib/python3*/site-packages/nvidia/nccl")
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(wheel / "include")
    for name in ("libnccl.so", "libnccl.so.2"):
        (folder / "lib" / name).symlink_to(wheel / "lib/libnccl.so.2")


def places(home: Path, nccl: Path) -> dict[str, str]:
    """Return the variables that locate compiler and NCCL for Horovod's build; its nvcc comes first on the PATH."""
    return {
        "HOROVOD_CUDA_HOME": str(home),
        "HOROVOD_NCCL_HOME": os.environ.get("HOROVOD_NCCL_HOME", str(nccl)),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
