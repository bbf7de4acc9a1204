"""What compiles Horovod with NCCL: a site's CUDA toolkit or, where there is none, the compiler of the CUDA 13 wheels.

TensorFlow's wheels bring CUDA 12 and NCCL, but no compiler. The wheels of CUDA 13 bring one; Horovod's few kernels are
linked with its runtime statically, so that nothing of it stays in the environment.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
            "nvidia-cuda-culibos")  # fmt: skip
"""Packages of requirements-cuda.lock that are no part of the environment."""
LIBRARIES = ("nvidia-nccl-cu12",)
"""What a build needs besides TensorFlow, of a lock that has it."""
OLDEST, WHEELS = 12, 13
"""Releases of CUDA: TensorFlow's wheels hold 12, and those with a compiler are of 13."""
OLDEST_DRIVER = {12: 525, 13: 580}
"""By the release of the runtime (docs.nvidia.com/cuda/cuda-toolkit-release-notes, "CUDA Driver")."""
ARCHITECTURES = {12: "70,80,90", 13: "80,90"}
"""Compute capabilities that Horovod's kernels are compiled for; CUDA 13 has no 70."""
DRIVER = Path("/proc/driver/nvidia/version")


class UnusableError(Exception):
    """There is no compiler for accelerators whose programs would run here; says why."""


@dataclass(frozen=True)
class Toolkit:
    """A compiler of CUDA.

    Attributes
    ----------
    release
        Major number of its release.
    identity
        What its programs depend on, for the key of a wheel.
    home
        Where a site has it; None: the wheels' compiler, still to be installed.
    """

    release: int
    identity: str
    home: Path | None = None


def find_toolkit(locked: str) -> Toolkit:
    """Return the compiler to use: a site's own or, by its entries in the lock, that of the wheels.

    Raises
    ------
    UnusableError
        If the driver of this machine is too old for it.
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
    """Return the toolkit that HOROVOD_CUDA_HOME names or whose nvcc is on the PATH; None if it is older than 12."""
    named = os.environ.get("HOROVOD_CUDA_HOME")
    nvcc = shutil.which(f"{named}/bin/nvcc" if named else "nvcc")
    if nvcc is None:
        return None
    version = _output(nvcc, "--version")
    release = re.search(r"release (\d+)\.", version)
    # nvcc on the PATH may be a script that calls the real one.
    top = re.search(r"^#\$ TOP=(.+)$", _output(nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null"), flags=re.MULTILINE)
    if release is None or top is None or int(release[1]) < OLDEST:
        return None
    return Toolkit(int(release[1]), version, Path(top[1].strip()).resolve())


def driver() -> int | None:
    """Return the major number of the driver's version; None on a machine without one, as a login node."""
    found = re.search(r"Kernel Module.*?\s(\d+)\.\d+", DRIVER.read_text()) if DRIVER.is_file() else None
    return int(found[1]) if found else None


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def settings(toolkit: Toolkit) -> dict[str, str]:
    """Return the variables of Horovod's build that change its binary."""
    return {
        "HOROVOD_GPU": "CUDA",
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_LINK": "SHARED",  # the wheel of NCCL has no static library
        "HOROVOD_BUILD_CUDA_CC_LIST": ARCHITECTURES[min(toolkit.release, WHEELS)],
    }


def link_toolkit(home: Path) -> None:
    """Give the wheels' compiler the names that a linker looks for."""
    (home / "lib64").symlink_to("lib")
    for library in (home / "lib").glob("libcudart.so.*"):
        (home / "lib/libcudart.so").symlink_to(library.name)


def link_nccl(venv: Path, folder: Path) -> None:
    """Make a folder in which a build finds the environment's NCCL: its wheel has no `libnccl.so`."""
    (wheel,) = venv.glob("lib/python3*/site-packages/nvidia/nccl")
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(wheel / "include")
    for name in ("libnccl.so", "libnccl.so.2"):
        (folder / "lib" / name).symlink_to(wheel / "lib/libnccl.so.2")


def places(home: Path, nccl: Path) -> dict[str, str]:
    """Return the variables that tell Horovod's build where compiler and NCCL are; its nvcc comes first."""
    return {
        "HOROVOD_CUDA_HOME": str(home),
        "HOROVOD_NCCL_HOME": os.environ.get("HOROVOD_NCCL_HOME", str(nccl)),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
