"""Quantities and categories as people say them: ``40 KiB``, ``1.2 GB/s``, ``3.1 ms``, ``28 %``, ``element-wise``."""

from collections.abc import Sequence

Steps = Sequence[tuple[float, str]]
BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
RATES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def say_bytes(value: float) -> str:
    """Return a number of bytes with a binary prefix, because message sizes are powers of two."""
    return _say(value, BYTES)


def say_rate(value: float, unit: str = "B/s") -> str:
    """Return a rate with a decimal prefix, as links, disks and processors are rated."""
    return _say(value, [(factor, prefix + unit) for factor, prefix in RATES])


def say_time(value: float) -> str:
    """Return a time [s] in s, ms, µs or ns."""
    return _say(value, TIMES)


def say_share(value: float) -> str:
    """Return a ratio as a percentage; one that is not zero never reads as ``0 %``."""
    if 0 < value < 0.0095:
        return f"{100 * value:.1g} %"
    return f"{100 * value:.0f} %"


def name_category(name: str) -> str:
    """Return how a category of kernels is written, however a rule set spells it."""
    words = name.strip().lower().replace("_", " ")
    spellings = {
        "gemm": "GEMM", "batch norm": "batch normalisation", "batch normalization": "batch normalisation",
        "nccl allreduce": "allreduce", "elementwise": "element-wise", "element wise": "element-wise",
    }  # fmt: skip
    return spellings.get(words, words)


def choose_step(value: float, steps: Steps) -> tuple[float, str]:
    """Return the largest step that leaves a digit before the point, or else the smallest."""
    # 999.7 would be written as 1000: it belongs to the next step.
    return next((step for step in steps if abs(value) >= 0.9995 * step[0]), steps[-1])


def _say(value: float, steps: Steps) -> str:
    factor, unit = choose_step(value, steps)
    return f"{_digits(value / factor)} {unit}"


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"
