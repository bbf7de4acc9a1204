"""Find what this node lacks to train on NVIDIA accelerators, with the command to get it; imports and runs nothing."""

import os
import re
import shutil
import socket
from collections.abc import Iterable, Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from hpcai.config.plans import Campaign
from hpcai.core.accelerators import find_accelerators, find_driver
from hpcai.core.messages import Message
from hpcai.launchers.declaration import Launcher
from hpcai.launchers.registry import LAUNCHERS

LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch for each CUDA runtime (NVIDIA, CUDA Compatibility, Minor Version Compatibility, table 1)."""
RUNTIMES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
JAX_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
MAKE = "make env DEVICE=cuda"
State = Literal["found", "missing", "not needed", "in the image"]

ON_A_GPU_NODE = Message(
    "gpu_site.on_a_gpu_node",
    "look inside a job that has an accelerator: `hpcai doctor --gpu`; if no driver answers there either, ask the "
    "administrators for NVIDIA's driver",
)
NEWER_DRIVER = Message(
    "gpu_site.newer_driver",
    "ask the administrators for a driver of branch {least} or newer, or compute in an image with an older CUDA",
)
GET_WHEELS = Message("gpu_site.get_wheels", "`{command}` brings {what}, without root")
GET_COMPILER = Message(
    "gpu_site.get_compiler",
    "`module load cuda gcc` or their names here, then `{command}`; without a compiler take the engine "
    "tensorflow, which needs none",
)
GET_STEPS = Message(
    "gpu_site.get_steps",
    "runs over {nodes} nodes are started inside a job of Slurm or by a launcher with MPI: load the module of either",
)


@dataclass(frozen=True)
class Part:
    """One prerequisite of training on accelerators.

    Attributes
    ----------
    name
        Name of the prerequisite.
    state
        Whether it is available.
    found, needed
        What was found and what is expected, in words.
    remedy
        The command that installs it; blank if nothing is missing.
    """

    name: str
    state: State
    found: str
    needed: str
    remedy: str = ""


@dataclass(frozen=True)
class Wanted:
    """Requirements of a study: its engines, the nodes of its largest run, and whether ranks run in an image."""

    engines: frozenset[str] = frozenset({"tensorflow"})
    nodes: int = 1
    in_image: bool = False

    @classmethod
    def of(cls, campaign: Campaign | None) -> "Wanted":
        """Return the requirements of a study; without one, the engine with the fewest needs, on one node."""
        if campaign is None:
            return cls()
        rows = [*campaign.rows, *campaign.weak_rows]
        software = campaign.machine.software
        return cls(
            engines=frozenset(row.engine for row in rows) or cls().engines,
            nodes=max((row.nodes for row in rows), default=1),
            in_image=software is not None and software.container is not None,
        )


def look_at_gpu_site(wanted: Wanted, environment: Mapping[str, str] = os.environ) -> tuple[Part, ...]:
    """Return the available and missing prerequisites, the driver first.

    Parameters
    ----------
    wanted
        Requirements of the study.
    environment
        Environment of this process.
    """
    packages = [_runtime(wanted), _nccl(wanted), _horovod(wanted), _compiler(wanted, environment)]
    if wanted.in_image:
        packages = [Part(one.name, "in the image", "not looked into", one.needed) for one in packages]
    return (_driver(), *packages, _launcher(wanted), _mpi())


def _driver() -> Part:
    driver, cuda = find_driver(), _runtime_version()
    least = LEAST_DRIVER.get(cuda[0], min(LEAST_DRIVER.values())) if cuda else LEAST_DRIVER[12]
    needed = f"branch {least} or newer, for CUDA {_dotted(cuda) if cuda else '12, which the wheels bring'}"
    if driver is None:
        return Part("driver", "missing", f"none answers on {socket.gethostname()}", needed, ON_A_GPU_NODE())
    found = f"{driver.version} (CUDA up to {_dotted(driver.cuda)}), {len(find_accelerators())} accelerators"
    if int(driver.version.split(".")[0]) < least:
        return Part("driver", "missing", found, needed, NEWER_DRIVER(least=least))
    return Part("driver", "found", found, needed)


def _runtime(wanted: Wanted) -> Part:
    """Return the framework with its CUDA libraries: JAX's plugin for `jax`, TensorFlow's wheels for other engines."""
    name, needed = "CUDA for the engine", "TensorFlow's CUDA wheels"
    plugin = _first_version(JAX_PLUGINS)
    if wanted.engines == {"jax"}:
        needed = "JAX's CUDA plugin"
        if plugin:
            return Part(name, "found", plugin, needed)
        return Part(name, "missing", "JAX without it" if find_spec("jax") else "no JAX", needed, _wheels(needed))
    runtime = _first_version(RUNTIMES)
    # A CPU-only TensorFlow has a different package name.
    tensorflow = _first_version(("tensorflow",))
    if runtime and tensorflow and not ("jax" in wanted.engines and not plugin):
        return Part(name, "found", ", ".join(filter(None, (tensorflow, runtime, plugin))), needed)
    found = tensorflow or _first_version(("tensorflow-cpu",)) or "no TensorFlow"
    return Part(name, "missing", ", ".join(filter(None, (found, runtime, plugin))), needed, _wheels(needed))


def _nccl(wanted: Wanted) -> Part:
    needed = "NCCL, for more than one accelerator with the engines horovod and jax"
    if wanted.engines <= {"tensorflow"}:
        return Part("NCCL", "not needed", "the study's engines do without", needed)
    found = _first_version(NCCL_WHEELS) or find_library("nccl")
    if found:
        return Part("NCCL", "found", found, needed)
    return Part("NCCL", "missing", "neither a wheel nor libnccl", needed, _wheels("NCCL"))


def _horovod(wanted: Wanted) -> Part:
    needed = "Horovod compiled with NCCL, for the engine horovod"
    if "horovod" not in wanted.engines:
        return Part("Horovod with NCCL", "not needed", "the study's engines do without", needed)
    found = _first_version(("horovod",))
    if found and horovod_knows_nccl():
        return Part("Horovod with NCCL", "found", found, needed)
    return Part(
        "Horovod with NCCL", "missing", f"{found} without NCCL" if found else "none", needed, _wheels("Horovod")
    )


def _compiler(wanted: Wanted, environment: Mapping[str, str]) -> Part:
    needed = "g++ and nvcc (or the CUDA 13 wheels' nvcc), to compile Horovod with NCCL"
    if "horovod" not in wanted.engines or horovod_knows_nccl():
        return Part("compiler", "not needed", "nothing is to be compiled", needed)
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH", "HOROVOD_CUDA_HOME") if environment.get(name)]
    nvcc = shutil.which("nvcc") or next((str(path) for home in homes if (path := Path(home, "bin/nvcc")).exists()), "")
    gxx = shutil.which("g++") or ""
    found = ", ".join(filter(None, (gxx, nvcc))) or "neither"
    # Wheels provide nvcc if the site has none, but not g++.
    if gxx:
        return Part("compiler", "found", found if nvcc else f"{gxx}; nvcc from the CUDA 13 wheels", needed)
    return Part("compiler", "missing", found, needed, GET_COMPILER(command=MAKE))


def _launcher(wanted: Wanted) -> Part:
    started = [name for name, launcher in LAUNCHERS.items() if _can_start(launcher)]
    needed = f"ranks on {wanted.nodes} nodes" if wanted.nodes > 1 else "ranks on one node"
    # Launchers that are modules of ours reach other nodes through a step of the batch system.
    if wanted.nodes > 1 and not any(_own_program(LAUNCHERS[name]) for name in started):
        return Part("launcher", "missing", ", ".join(started), needed, GET_STEPS(nodes=wanted.nodes))
    return Part("launcher", "found", ", ".join(started), needed)


def _own_program(launcher: Launcher) -> str:
    """Return the program of a launcher; blank for one that is a module of ours."""
    return next((name for name in launcher.programs if "." not in name), "")


def _can_start(launcher: Launcher) -> bool:
    program = _own_program(launcher)
    return bool(shutil.which(program)) if program else all(map(find_spec, launcher.packages))


def _mpi() -> Part:
    users = [name for name, launcher in LAUNCHERS.items() if launcher.uses_mpi]
    needed = f"only for the launchers {', '.join(users)}, with a Horovod that knows MPI"
    commands = [launcher.versions["mpi"][0] for launcher in LAUNCHERS.values() if "mpi" in launcher.versions]
    found = next(filter(None, map(shutil.which, commands)), None)
    return Part("MPI", "found" if found else "not needed", found or "none; other launchers do not need it", needed)


def horovod_knows_nccl() -> bool:
    """Return whether the installed Horovod was built with NCCL, without the seconds that importing it takes."""
    spec = find_spec("horovod")
    if spec is None or spec.origin is None:
        return False
    libraries = (Path(spec.origin).parent / "tensorflow").glob("mpi_lib*.so")
    return any(b"ncclAllReduce" in library.read_bytes() for library in libraries)


def _runtime_version() -> tuple[int, int] | None:
    text = _first_version(RUNTIMES)
    found = re.search(r"(\d+)\.(\d+)", text.rpartition(" ")[2])
    return (int(found[1]), int(found[2])) if found else None


def _first_version(names: Iterable[str]) -> str:
    """Return name and version of the first installed package; blank if there is none."""
    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return ""


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _wheels(what: str) -> str:
    return GET_WHEELS(command=MAKE, what=what)
