"""Compile Horovod once for everything its binary depends on, and keep the wheel for the next environment.

Wheels lie in `${XDG_CACHE_HOME:-~/.cache}/hpcai/wheels/KEY/`, each with its SHA-256 beside it. The key holds what
changes the binary: sources and TensorFlow as locked, Python, compiler, C library, MPI, the build's variables and
the instructions that this processor has, since a home folder may be shared by different machines. With NCCL it also
holds the compiler of CUDA.
"""

import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import cuda

CMAKE = Path(__file__).resolve().parent / "horovod_cmake.sh"
CUDA_CMAKE = CMAKE.with_name("horovod_cuda_cmake.sh")
SUM = "SHA256"
LOCKED = ("horovod", "tensorflow-cpu", "tensorflow", "nvidia-nccl-cu12")
"""Packages of a lock, as far as it has them, that Horovod is compiled from and against."""
INSTRUCTIONS = ("avx", "f16c", "fma")  # those that Horovod's CMakeLists.txt looks for
TOOL_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "AR")


def settings(mpi: bool, toolkit: cuda.Toolkit | None = None) -> dict[str, str]:
    """Return the variables of the build (Horovod's docs/install.rst, "Environment Variables"); the user's win."""
    names = ["WITH_TENSORFLOW", "WITH_GLOO", "WITHOUT_PYTORCH", "WITHOUT_MXNET", "WITH_MPI" if mpi else "WITHOUT_MPI"]
    has = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
    chosen = {
        **{f"HOROVOD_{name}": "1" for name in names},
        # Never empty: Horovod would ask the compiler what this machine can do, and the key would not know.
        "HOROVOD_BUILD_ARCH_FLAGS": f"-mtune=generic {' '.join(f'-m{name}' for name in INSTRUCTIONS if name in has)}",
        "HOROVOD_CMAKE": str(CUDA_CMAKE if toolkit else CMAKE),
        "CXX": "g++",
        **(cuda.settings(toolkit) if toolkit else {}),
    }
    given = {name: os.environ[name] for name in os.environ if name.startswith("HOROVOD_") or name in TOOL_VARIABLES}
    return chosen | given


def wheel_key(locked: str, mpi: bool, toolkit: cuda.Toolkit | None = None) -> str:
    """Return the name of the wheel's folder, made from all that the binary depends on."""
    build = settings(mpi, toolkit)
    parts = [locked, str(sysconfig.get_config_var("SOABI")), CMAKE.read_text(), macros(build["CXX"], "cstdlib")]
    own = (str(CMAKE), str(CUDA_CMAKE))
    parts += [f"{name}={value}" for name, value in sorted(build.items()) if value not in own]
    if toolkit:
        parts += [CUDA_CMAKE.read_text(), toolkit.identity]
    if mpi:
        parts += [macros("mpicxx", "mpi.h"), output(["mpicxx", "-show"])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def mpi_is_here() -> bool:
    """Tell whether MPI programs can be compiled: Debian has the compiler's wrapper in a package without the header."""
    try:
        return bool(macros("mpicxx", "mpi.h"))
    except (OSError, subprocess.CalledProcessError):
        return False


def macros(compiler: str, header: str) -> str:
    """Return all that a header defines: versions of compiler, target, C library and MPI are among it."""
    return output([*compiler.split(), "-x", "c++", "-E", "-dM", "-include", header, "/dev/null"])


def output(command: list[str]) -> str:
    """Return what a program prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wheels_folder(venv: Path) -> Path:
    """Return where wheels are kept; inside the environment if the user's cache cannot be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcai" / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return venv / "wheels"
    return folder if os.access(folder, os.W_OK) else venv / "wheels"


def kept_wheel(folder: Path) -> tuple[Path, str] | None:
    """Return a kept wheel and its SHA-256; a damaged one is removed."""
    for wheel in folder.glob("*.whl"):
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if (folder / SUM).is_file() and (folder / SUM).read_text() == found:
            return wheel, found
        shutil.rmtree(folder)
    return None


def build_wheel(venv: Path, requirement: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
    """Compile the locked source into a folder, which appears when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        listed, made = Path(scratch) / "horovod.txt", Path(scratch) / "made"
        listed.write_text(requirement)
        made.mkdir()
        command = [venv / "bin/python", "-m", "pip", "wheel", "--require-hashes", "--no-deps", "--no-build-isolation"]
        # Never from pip's cache: a wheel kept there may belong to another TensorFlow or lack MPI.
        command += ["--no-cache-dir", "-w", made, "-r", listed]
        with log.open("w") as lines:
            subprocess.run(command, env=environment, stdout=lines, stderr=lines, check=True)
        wheel = next(made.glob("*.whl"))
        (made / SUM).write_text(hashlib.sha256(wheel.read_bytes()).hexdigest())
        try:
            made.rename(folder)
        except OSError:
            if kept_wheel(folder) is None:  # else another set-up was faster, with the same wheel
                raise


def build_environment(venv: Path, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a build with these settings: the virtual environment's CMake and all cores."""
    path = f"{venv / 'bin'}{os.pathsep}{chosen.get('PATH', os.environ['PATH'])}"
    cores = f"-j{len(os.sched_getaffinity(0))}"
    return {**os.environ, **chosen, "PATH": path, "MAKEFLAGS": cores, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
