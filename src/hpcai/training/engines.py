"""Map an engine's name to the module that computes its steps; only that module is imported."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from hpcai.config.base import Engine
from hpcai.config.machine import Device
from hpcai.training.workload import Batch, Streams, Workload

_MODULES: dict[Engine, str] = {
    "horovod": "hpcai.training.engine",
    "tensorflow": "hpcai.training.engine",
    "jax": "hpcai.training.jax_engine",
}


class Steps(Protocol):
    """What the training loop requires of a model with its optimizer; see :class:`hpcai.training.engine.Engine`."""

    no_rows: NDArray[np.float64]
    parameters: int
    skipped_steps: int
    """Steps so far that changed no weight: gradient skipping or loss scaling left them out."""

    def train(self, batches: Sequence[Batch]) -> SupportsFloat:
        """Take one optimizer step on all ranks; return the mean loss, which may still be in computation."""

    def evaluate(self, batch: Batch) -> Any:  # noqa: ANN401  a tensor, which becomes an array
        """Return the rows (k, m) of one batch."""

    def set_learning_rate(self, rate: float) -> None:
        """Use a learning rate from the next step on."""

    def warm_up(self) -> None:
        """Compile all steps."""

    def synchronise(self) -> None:
        """Copy the weights of rank 0 to all ranks."""

    def synchronise_statistics(self) -> None:
        """Set the moving statistics for evaluation on all ranks."""

    def digest(self) -> str:
        """Return the SHA-256 of all weights."""


class StepsModule(Protocol):
    """Interface of a module of steps."""

    def Engine(self, workload: Workload[Any], seeds: Streams) -> Steps:  # noqa: N802  a class
        """Build and compile."""

    def configure_device(self, device: Device, threads: int, local_rank: int) -> str:
        """Configure threads and devices before anything else; return the device's name."""


def steps_of(engine: Engine) -> StepsModule:
    """Return the module of an engine's steps; Keras must use its backend in this process (`KERAS_BACKEND`)."""
    module: StepsModule = import_module(_MODULES[engine])
    return module
