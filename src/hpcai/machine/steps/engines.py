"""Engines that can time steps on one device, and why one cannot."""

from importlib.util import find_spec
from typing import get_args

from hpcai.config.base import Engine as EngineName
from hpcai.core.errors import LaunchError, MissingExtraError
from hpcai.core.messages import Message

JAX_ENGINE = "hpcai.training.engines.jax"
"""Module of the engine ``jax``; its ``Engine`` is made and called as `hpcai.training.engine.Engine` is."""
NOT_BUILT = Message(
    "steps.engine_not_built",
    "engine {engine}: found no {module} in this version of HPC-AI Bench, which has the engines {known}; install a "
    "version with it, or measure with --engine {other}",
)
NOT_INSTALLED = Message(
    "steps.engine_not_installed",
    "engine {engine}: the package {package} is not installed; in the checkout call {command}, or measure with "
    "--engine {other}",
)
OTHER = "tensorflow"


def require_engine(engine: str, device: str) -> None:
    """Check that an engine can be started here; nothing of it is imported.

    Raises
    ------
    LaunchError
        If this version does not have it.
    MissingExtraError
        If its package is not installed.
    """
    if engine == "jax" and not _is_built():
        known = ", ".join(get_args(EngineName))
        raise LaunchError(NOT_BUILT(engine=engine, module=JAX_ENGINE, known=known, other=OTHER))
    package = "jax" if engine == "jax" else "horovod" if engine == "horovod" else "tensorflow"
    if find_spec(package) is None:
        command = "`make env DEVICE=cuda`" if device == "gpu" else "`make env`"
        raise MissingExtraError(NOT_INSTALLED(engine=engine, package=package, command=command, other=OTHER))


def _is_built() -> bool:
    try:
        return find_spec(JAX_ENGINE) is not None
    except ModuleNotFoundError:  # not even its folder
        return False
