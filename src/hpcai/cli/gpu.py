"""The command that measures one accelerator."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcai.cli.options import Command, choice, flag, option, seconds_or, takes

app = typer.Typer(rich_markup_mode=None, add_completion=False)
TIMED_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Options of `hpcai gpu`."""

    device: Annotated[Literal["gpu", "cpu"], choice("cpu tries the same path on the processor, and is labelled so")] = (
        "gpu"
    )
    engine: Annotated[Literal["jax", "tensorflow", "horovod"], choice("what computes the training steps")] = "jax"
    precision: Annotated[
        Literal["all", "fp32", "tf32", "bf16"], choice("of the training steps; one takes a third of the time")
    ] = "all"
    tiny: Annotated[bool, flag("--tiny", "the small benchmarks, and each ceiling timed once")] = False
    seconds: Annotated[
        float,
        option("SECONDS", parser=seconds_or(TIMED_S), words="for the timed steps of each benchmark and precision"),
    ] = TIMED_S
    results: Annotated[Path, option("DIR", "gets gpu.html and gpu/ with tables, figures and raw files")] = Path(
        "results"
    )


@app.command("gpu", cls=Command)
@takes(Measuring)
def measure(asked: Measuring) -> int:
    """Measure one GPU: matrix products, memory, and training steps of CosmoFlow and ResNet-50 at official sample size.

    Each in fp32, TF32 and bf16: throughput, share of the matrix products' rate, kernels by category, energy per sample,
    all shown on one page. Exit status: 0 everything was measured, 1 device or engine missing (nothing was started), 2
    something could not be measured; the page gives the reasons.
    """
    from hpcai.measure.gpu import PRECISIONS, Asked, measure_device
    from hpcai.measure.gpu_tables import say_steps
    from hpcai.report.own_pages import DEVICE_PLACE, write_page_of_device

    started_s = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - started_s:6.0f} s  {words}", flush=True)

    raw = asked.results / DEVICE_PLACE / "raw"
    precisions = PRECISIONS if asked.precision == "all" else (asked.precision,)
    tables = measure_device(Asked(asked.device, asked.engine, asked.tiny, asked.seconds, raw, precisions), say)
    print(say_steps(tables["gpu_steps"]))
    print(write_page_of_device(tables, asked.results).resolve().as_uri())
    expected = tables["gpu_steps"]["precision"].ne("tf32") | (asked.device == "gpu")
    return 2 if tables["gpu_steps"][expected]["rate_samples_per_s"].isna().any() else 0
