"""Dense matrix product rate of this machine: the best of several back-ends, shapes and repetitions.

One library gives no ceiling: OpenBLAS takes some new processors for old ones and then runs at half the speed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.machine.ceilings.sampling import CeilingReport, Precision, Way
from hpcai.machine.subprocess_measure import THIS_PYTHON, DeviceKind, measure_apart, parse_options, serve

MODULE = "hpcai.machine.ceilings.gemm"
REPEATS = 4


@dataclass(frozen=True)
class Shape:
    """The product of a ``rows x inner`` and an ``inner x columns`` matrix."""

    rows: int
    inner: int
    columns: int

    @property
    def work_flop(self) -> int:
        """Operations: one multiplication and one addition for each of rows x inner x columns terms."""
        return 2 * self.rows * self.inner * self.columns

    def __str__(self) -> str:
        return f"{self.rows} x {self.inner} x {self.columns}"


def square(size: int) -> Shape:
    """Return the shape of a product of square matrices."""
    return Shape(size, size, size)


DENSE = Shape(64, 2048, 1000)
"""The last layer of ResNet-50 for a batch of 64."""
SHAPES = (square(256), DENSE, square(1024), square(2048))
SHAPES_FP64 = SHAPES[:-1]
"""Types with half the rate, needed only for comparison with HPL."""
SHAPES_GPU = (square(256), DENSE, square(4096), square(8192))


def measure_gemm(
    threads: Iterable[int],
    device: DeviceKind = "cpu",
    repeats: int = REPEATS,
    *,
    python: Sequence[str] = THIS_PYTHON,
) -> CeilingReport:
    """Measure matrix products.

    Parameters
    ----------
    threads
        Numbers of threads, each in its own process, because the libraries fix their thread count at start.
    device
        Device of the ranks.
    repeats
        Timed repetitions of every shape, precision and back-end.
    python
        Command that runs Python in this environment or in the machine's image.

    Returns
    -------
    CeilingReport
        Includes the reasons for missing measurements.
    """
    return measure_apart("gemm", MODULE, threads, device, repeats, python=python)


def all_products(device: DeviceKind) -> list[Way]:
    """Return every multiplication method on a device, less work first."""
    from hpcai.machine.ceilings.tensors import precisions_of

    precisions = precisions_of(device)
    if device == "gpu":
        return products((*precisions, "fp64"), SHAPES_GPU, "gpu")
    return [*products(precisions, SHAPES), *products(("fp64",), SHAPES_FP64)]


def products(precisions: Sequence[Precision], shapes: Sequence[Shape], device: DeviceKind = "cpu") -> list[Way]:
    """Return this process's multiplication methods; TensorFlow's and NumPy's threads must be configured."""
    ways: list[Way] = []
    for shape in shapes:
        for precision in precisions:
            if device == "cpu" and precision in _TYPES:
                ways += _blas_products(precision, shape)
            ways.append(_tensorflow_product(precision, shape, device))
    return ways


_TYPES: dict[Precision, type[np.float32 | np.float64]] = {"fp32": np.float32, "fp64": np.float64}
"""Types that BLAS multiplies. NumPy multiplies half precision without BLAS, element by element."""


def _blas_products(precision: Precision, shape: Shape) -> list[Way]:
    from scipy.linalg import blas

    left, right = _factors(shape, _TYPES[precision])
    product = np.empty((shape.rows, shape.columns), left.dtype)
    # SciPy has its own BLAS, which takes column-major matrices without a copy.
    columnwise = [np.asfortranarray(matrix) for matrix in (left, right, product)]
    gemm = blas.sgemm if precision == "fp32" else blas.dgemm
    runs: dict[str, Callable[[], object]] = {
        "numpy": lambda: np.matmul(left, right, out=product),
        "scipy": lambda: gemm(1.0, *columnwise[:2], c=columnwise[2], overwrite_c=True),
    }
    return [Way("gemm", precision, backend, str(shape), shape.work_flop, run) for backend, run in runs.items()]


def _factors(shape: Shape, kind: type[np.float32 | np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two different matrices: NumPy detects a product with its own transpose and halves the work."""
    generator = np.random.default_rng(1)
    sizes = ((shape.rows, shape.inner), (shape.inner, shape.columns))
    left, right = (generator.standard_normal(size, np.float32).astype(kind) for size in sizes)
    return left, right


def _tensorflow_product(precision: Precision, shape: Shape, device: DeviceKind) -> Way:
    import tensorflow as tf

    from hpcai.machine.ceilings.tensors import backend_of, call_with, calls_of, random_tensors, wait_for

    factors = random_tensors([(shape.rows, shape.inner), (shape.inner, shape.columns)], precision)
    run = call_with(tf.linalg.matmul, factors, precision)
    return Way(
        "gemm", precision, backend_of(device), str(shape), shape.work_flop, run, calls=calls_of(device), wait=wait_for
    )


if __name__ == "__main__":
    serve(parse_options(MODULE), all_products)
