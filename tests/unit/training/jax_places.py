"""Print the device that JAX is told to use on each rank of the layouts of `test_accelerators`, as JSON."""

import json
import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import pytest
import tensorflow as tf
from unit.training.test_accelerators import LAYOUTS, Rank, layout

from hpcai.config.machine import Device
from hpcai.training import jax_engine


def chosen(patch: pytest.MonkeyPatch, *ranks: Rank) -> list[str]:
    """Return each rank's device as JAX counts those that it sees."""
    found: list[str] = []

    def configure(local_rank: int) -> None:
        os.environ.pop("CUDA_DEVICE_ORDER", None)
        jax_engine.configure_device(Device(kind="gpu"), 1, local_rank)
        found.append(jax.config.read("jax_cuda_visible_devices"))

    layout(patch, *ranks, configure=configure)
    return found


def hide(*_: object) -> None:
    """Like TensorFlow, which lists the devices to hide them: CUDA then reads the order once."""
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.config, "set_visible_devices", hide)
        print(json.dumps({name: chosen(patch, *ranks) for name, ranks in LAYOUTS.items()}))
