"""The rate of dense matrix products on this machine: the best of several back-ends, sizes and repeats.

One library alone is no ceiling: OpenBLAS takes some new processors for old ones and is then twice too slow.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel, ConfigDict, Field

from hpcai.config.machine import Precision
from hpcai.errors import ConfigError, LaunchError

SIZES = (1024, 2048)
REPEATS = 6
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")


class GemmSample(BaseModel):
    """One timed product of two square matrices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str
    precision: Precision
    threads: int = Field(ge=1)
    size: int = Field(ge=1, description="Rows and columns of each matrix.")
    duration_s: float = Field(gt=0)
    rate_flop_per_s: float = Field(gt=0, description="2 size^3 / duration_s.")


class GemmReport(BaseModel):
    """All samples, and the fastest for each precision and number of threads; the first call of each is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: tuple[GemmSample, ...]
    samples: tuple[GemmSample, ...]


@dataclass(frozen=True)
class Product:
    """One way to multiply two square matrices; ``run`` returns when the product is there."""

    backend: str
    precision: Precision
    size: int
    run: Callable[[], object]

    @property
    def work_flop(self) -> int:
        """Operations of one product: a multiplication and an addition for each of size^3 terms."""
        return 2 * self.size**3


def measure_gemm(threads: Iterable[int]) -> str:
    """Measure matrix products with each number of threads; return a :class:`GemmReport` as JSON.

    Each number of threads gets a process of its own, because the libraries settle their threads when they start.

    Raises
    ------
    ConfigError
        If there are fewer usable cores than threads.
    LaunchError
        If a measuring process fails.
    """
    samples: list[GemmSample] = []
    for count in threads:
        samples += _measure_apart(count)
    return GemmReport(best=best_of(samples), samples=tuple(samples)).model_dump_json(indent=1) + "\n"


def best_of(samples: Sequence[GemmSample]) -> tuple[GemmSample, ...]:
    """Return the fastest sample for each precision and number of threads."""
    keys = sorted({(sample.precision, sample.threads) for sample in samples})
    groups = ([sample for sample in samples if (sample.precision, sample.threads) == key] for key in keys)
    return tuple(max(group, key=lambda sample: sample.rate_flop_per_s) for group in groups)


def _measure_apart(threads: int) -> list[GemmSample]:
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise ConfigError(f"threads: found {threads}, expected at most {len(cores)}, the cores that may be used here")
    command = [sys.executable, "-m", "hpcai.characterise.gemm", "--threads", str(threads)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LaunchError(f"{' '.join(command)}: ended with {done.returncode}, expected 0: {done.stderr[-2000:]}")
    return [GemmSample.model_validate_json(line) for line in done.stdout.splitlines()]


def products(precisions: Sequence[Precision], sizes: Sequence[int]) -> list[Product]:
    """Return every way to multiply that this process offers; TensorFlow's and NumPy's threads must be settled."""
    import numpy as np
    import tensorflow as tf

    ways: list[Product] = []
    multiply = tf.function(tf.linalg.matmul)
    for size in sizes:
        # Two different matrices: NumPy notices a product with the own transpose and does half the work.
        factors = np.random.default_rng(size).standard_normal((2, size, size), np.float32)
        if "fp32" in precisions:
            ways.append(Product("numpy", "fp32", size, partial(np.matmul, *factors, out=np.empty_like(factors[0]))))
        for precision in precisions:
            tensors = tf.cast(tf.constant(factors), {"fp32": tf.float32, "bf16": tf.bfloat16}[precision])
            ways.append(Product("tensorflow", precision, size, partial(multiply, *tf.unstack(tensors))))
    return ways


def time_product(product: Product, threads: int) -> GemmSample:
    """Time one product."""
    started_s = time.monotonic()
    product.run()
    duration_s = time.monotonic() - started_s
    return GemmSample(
        backend=product.backend,
        precision=product.precision,
        threads=threads,
        size=product.size,
        duration_s=duration_s,
        rate_flop_per_s=product.work_flop / duration_s,
    )


def main() -> None:
    """Print one JSON line per sample, with a number of threads on as many cores."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.characterise.gemm", description=main.__doc__)
    parser.add_argument("--threads", type=int, required=True)
    threads: int = parser.parse_args().threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ways = products(PRECISIONS, SIZES)
    for way in ways:
        way.run()  # compiles kernels and wakes up threads
    for _ in range(REPEATS):
        for way in ways:
            print(time_product(way, threads).model_dump_json())


if __name__ == "__main__":
    main()
