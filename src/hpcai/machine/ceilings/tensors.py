"""Shared by TensorFlow's methods: number types, the accelerator's queue, and TF32."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from hpcai.machine.ceilings.sampling import Precision
from hpcai.machine.subprocess_measure import DeviceKind

TYPES = {"fp64": tf.float64, "fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
QUEUED_CALLS = 10
"""Calls queued at once on an accelerator, so that starting and waiting have little weight."""
FIRST_WITH_TF32 = (8, 0)
"""Minimum compute capability: TF32 came with Ampere (CUDA C++ Programming Guide, section Tensor cores)."""


def precisions_of(device: DeviceKind) -> tuple[Precision, ...]:
    """Return the precisions to try; trying shows which of them a device lacks."""
    if device == "cpu":
        return ("fp32", "bf16", "fp16")
    return ("fp32", "tf32", "bf16", "fp16") if _has_tf32() else ("fp32", "bf16", "fp16")


def _has_tf32() -> bool:
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    return tuple(details.get("compute_capability", (0, 0))) >= FIRST_WITH_TF32


def backend_of(device: DeviceKind) -> str:
    """Return the name of TensorFlow on a device for tables."""
    return "tensorflow" if device == "cpu" else "tensorflow gpu"


def calls_of(device: DeviceKind) -> int:
    """Return the number of calls per sample."""
    return 1 if device == "cpu" else QUEUED_CALLS


def random_tensors(shapes: Sequence[Sequence[int]], precision: Precision) -> Callable[[], list[tf.Tensor]]:
    """Return a function that makes tensors of normal numbers at its first call, and then returns the same ones."""

    @cache
    def make() -> list[tf.Tensor]:
        generator = np.random.default_rng(1)
        numbers = (generator.standard_normal(shape, np.float32) for shape in shapes)
        return [tf.cast(tf.constant(array), TYPES[precision]) for array in numbers]

    return make


def call_with(
    compute: Callable[..., Any], operands: Callable[[], list[tf.Tensor]], precision: Precision
) -> Callable[[], Any]:
    """Return a function that computes on the operands, with TF32 only if TF32 is measured."""
    compiled = tf.function(compute, autograph=False)

    def run() -> Any:  # noqa: ANN401  a tensor
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        return compiled(*operands())

    return run


def wait_for(result: Any) -> object:  # noqa: ANN401  a tensor
    """Wait for the result: on an accelerator by fetching one of its numbers."""
    return tf.reshape(result, [-1])[0].numpy() if "GPU" in result.device else result
