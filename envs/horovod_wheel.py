"""Compile Horovod once per combination of everything that affects its binary, and cache the wheel.

Wheels are in `${XDG_CACHE_HOME:-~/.cache}/hpcai/wheels/KEY/`, each with its SHA-256. The key covers everything that
affects the binary: locked sources and TensorFlow, Python, compiler, C library, MPI, the build's variables and the
processor's instructions, because different machines may share a home folder. With NCCL it also covers the CUDA
compiler.
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
"""Packages that Horovod is compiled from and against, if the lock has them."""
INSTRUCTIONS = ("avx", "f16c", "fma")  # the ones checked by Horovod's CMakeLists.txt
TOOL_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "AR")


def settings(mpi: bool, toolkit: cuda.Toolkit | None = None) -> dict[str, str]:
    """Return the build variables (Horovod's docs/install.rst, "Environment Variables"); the user's take precedence."""
    names = ["WITH_TENSORFLOW", "WITH_GLOO", "WITHOUT_PYTORCH", "WITHOUT_MXNET", "WITH_MPI" if mpi else "WITHOUT_MPI"]
    has = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
    chosen = {
        **{f"HOROVOD_{name}": "1" for name in names},
        # Never empty: Horovod would query the compiler for this machine's features, which the key does not cover.
        "HOROVOD_BUILD_ARCH_FLAGS": f"-mtune=generic {' '.join(f'-m{name}' for name in INSTRUCTIONS if name in has)}",
        "HOROVOD_CMAKE": str(CUDA_CMAKE if toolkit else CMAKE),
        "CXX": "g++",
        **(cuda.settings(toolkit) if toolkit else {}),
    }
    given = {name: os.environ[name] for name in os.environ if name.startswith("HOROVOD_") or name in TOOL_VARIABLES}
    return chosen | given


def wheel_key(locked: str, mpi: bool, toolkit: cuda.Toolkit | None = None) -> str:
    """Return the name of the wheel's folder, a hash of everything that affects the binary."""
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
    """Return whether MPI programs can be compiled: Debian packages the compiler wrapper without the header."""
    try:
        return bool(macros("mpicxx", "mpi.h"))
    except (OSError, subprocess.CalledProcessError):
        return False


def macros(compiler: str, header: str) -> str:
    """Return all macros of a header, among them the versions of compiler, target, C library and MPI."""
    return output([*compiler.split(), "-x", "c++", "-E", "-dM", "-include", header, "/dev/null"])


def output(command: list[str]) -> str:
    """Return a program's output."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wheels_folder(venv: Path) -> Path:
    """Return the wheel cache; inside the environment if the user's cache is not writable."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcai" / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return venv / "wheels"
    return folder if os.access(folder, os.W_OK) else venv / "wheels"


def kept_wheel(folder: Path) -> tuple[Path, str] | None:
    """Return a cached wheel and its SHA-256; remove a damaged one."""
    for wheel in folder.glob("*.whl"):
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if (folder / SUM).is_file() and (folder / SUM).read_text() == found:
            return wheel, found
        shutil.rmtree(folder)
    return None


def build_wheel(venv: Path, requirement: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
    """Compile the locked source into a folder, which appears only when complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        listed, made = Path(scratch) / "horovod.txt", Path(scratch) / "made"
        listed.write_text(requirement)
        made.mkdir()
        command = [venv / "bin/python", "-m", "pip", "wheel", "--require-hashes", "--no-deps", "--no-build-isolation"]
        # Never from pip's cache: its wheel may belong to another TensorFlow or lack MPI.
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
