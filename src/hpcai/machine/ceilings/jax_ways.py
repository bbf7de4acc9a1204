"""Matrix products and copies through JAX: gives a device ceilings even if TensorFlow's wheels lack CUDA."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.machine.ceilings.gemm import REPEATS, SHAPES, SHAPES_GPU, Shape
from hpcai.machine.ceilings.memory import ARRAY_BYTES_GPU, SMALLEST_ARRAY_BYTES
from hpcai.machine.ceilings.sampling import CeilingReport, Kind, Precision, Way
from hpcai.machine.subprocess_measure import DeviceKind, Options, measure_apart, parse_options, serve

if TYPE_CHECKING:
    import jax

MODULE = "hpcai.machine.ceilings.jax_ways"
QUEUED_CALLS = 10
"""Calls queued at once, as in `hpcai.machine.ceilings.tensors`."""
NO_DEVICE = Message("jax_ways.no_device", "JAX found no {device}: {reason}")
MULTIPLIED: dict[Precision, tuple[str, str]] = {
    "fp32": ("float32", "highest"),
    "tf32": ("float32", "tensorfloat32"),
    "bf16": ("bfloat16", "default"),
}
"""By precision: operand type and JAX's precision of the product."""


def measure_jax(threads: Iterable[int], device: DeviceKind, repeats: int = REPEATS) -> CeilingReport:
    """Measure products and copies through JAX; parameters as in `hpcai.machine.ceilings.gemm.measure_gemm`."""
    return measure_apart("gemm", MODULE, threads, device, repeats)


def all_ways(device: DeviceKind) -> list[Way]:
    """Return every multiplication and copy method on a device, less work first."""
    shapes: Sequence[Shape] = SHAPES_GPU if device == "gpu" else SHAPES
    precisions: list[Precision] = [one for one in MULTIPLIED if device == "gpu" or one != "tf32"]
    return [*(_product(one, shape, device) for shape in shapes for one in precisions), _copy(device)]


def _product(precision: Precision, shape: Shape, device: DeviceKind) -> Way:
    import jax

    kind, asked = MULTIPLIED[precision]
    keys = jax.random.split(jax.random.key(1))
    left = jax.random.normal(keys[0], (shape.rows, shape.inner), kind)
    right = jax.random.normal(keys[1], (shape.inner, shape.columns), kind)
    multiply = jax.jit(partial(jax.numpy.matmul, precision=asked))
    return _way("gemm", precision, str(shape), shape.work_flop, partial(multiply, left, right), device)


def _copy(device: DeviceKind) -> Way:
    import jax

    size = (ARRAY_BYTES_GPU if device == "gpu" else SMALLEST_ARRAY_BYTES) // 4
    array = jax.numpy.ones(size, "float32")
    # For a plain copy XLA would return the array itself.
    add = jax.jit(lambda values: values + 1.0)
    return _way("memory", "", f"copy, {size * 4} bytes", 2 * size * 4, partial(add, array), device)


def _way(
    kind: Kind,
    precision: Precision,
    setting: str,
    work: int,
    run: "Callable[[], jax.Array]",
    device: DeviceKind,
) -> Way:
    calls = QUEUED_CALLS if device == "gpu" else 1
    return Way(kind, precision, "jax", setting, work, run, calls=calls, wait=_wait)


def _wait(result: Any) -> object:  # noqa: ANN401  an array of JAX
    return result.block_until_ready()


def _settle(options: Options) -> None:
    """Choose the device before JAX looks for one.

    Raises
    ------
    LaunchError
        If JAX has no device of this kind.
    """
    import jax

    platform = "cuda" if options.device == "gpu" else "cpu"
    jax.config.update("jax_platforms", platform)
    try:
        jax.devices()
    except RuntimeError as error:
        raise LaunchError(NO_DEVICE(device=platform, reason=str(error).splitlines()[0])) from error


if __name__ == "__main__":
    serve(parse_options(MODULE), all_ways, _settle)
