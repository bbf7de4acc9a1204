"""The rank program on a node with pretended accelerators: `faked_gpus.py LAYOUT ...`, computing on the processor.

The folder LAYOUT has a file for each local rank: its CUDA_VISIBLE_DEVICES in the first line (blank: as it is), then
what `nvidia-smi -L` tells it. TensorFlow sees the accelerators that are visible, or all that are listed. What the rank
was given is written beside it, into seenRANK.
"""

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pynvml

from hpcai.core.lean_imports import NEEDLESS, without

with without(*NEEDLESS):
    import tensorflow as tf

    from hpcai.training import probe

layout = Path(sys.argv.pop(1))
visible, *listed = (layout / os.environ["HOROVOD_LOCAL_RANK"]).read_text().splitlines()
program = layout / f"bin{os.environ['HOROVOD_LOCAL_RANK']}" / "nvidia-smi"
program.parent.mkdir()
program.write_text("\n".join(["#!/bin/sh", "cat <<'LIST'", *listed, "LIST", ""]))
program.chmod(0o755)
os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
visible = visible or os.environ.get("CUDA_VISIBLE_DEVICES", "")
if visible:
    os.environ["CUDA_VISIBLE_DEVICES"] = visible
(layout / f"seen{os.environ['HOROVOD_LOCAL_RANK']}").write_text(visible)
devices = [SimpleNamespace(name=f"gpu{number}") for number in range(len(visible.split(",") if visible else listed))]


def no_library() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def nothing(*_: object) -> None:
    pass


pynvml.nvmlInit = no_library
real = tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind=None: devices if kind == "GPU" else real(kind)
tf.config.set_visible_devices = nothing
tf.config.experimental.set_memory_growth = nothing
tf.config.experimental.get_device_details = lambda device: {"device_name": device.name}
probe.EDGE["gpu"] = probe.EDGE["cpu"]  # it is a processor that multiplies
runpy.run_module("hpcai.training", run_name="__main__")
