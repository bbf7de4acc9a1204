"""Engines that can time steps on one device, and reasons why one cannot."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import get_args

from hpcai.config.base import Engine as EngineName
from hpcai.core.errors import LaunchError, MissingExtraError
from hpcai.core.messages import Message

JAX_ENGINE = "hpcai.training.jax_engine"
"""Module of the engine ``jax``; its ``Engine`` has the interface of `hpcai.training.engine.Engine`."""
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
    """Check that an engine can be started here, without importing it.

    Raises
    ------
    LaunchError
        If this version lacks the engine.
    MissingExtraError
        If its package is not installed.
    """
    if engine == "jax" and find_spec(JAX_ENGINE) is None:
        known = ", ".join(get_args(EngineName))
        raise LaunchError(NOT_BUILT(engine=engine, module=JAX_ENGINE, known=known, other=OTHER))
    package = "jax" if engine == "jax" else "horovod" if engine == "horovod" else "tensorflow"
    if find_spec(package) is None:
        command = "`make env DEVICE=cuda`" if device == "gpu" else "`make env`"
        raise MissingExtraError(NOT_INSTALLED(engine=engine, package=package, command=command, other=OTHER))


def module_of(engine: str) -> ModuleType:
    """Return the module with an engine's ``Engine`` and ``configure_device``; Keras must not be imported before."""
    return import_module(JAX_ENGINE if engine == "jax" else "hpcai.training.engine")
