"""What JAX wrote on a real GPU: the trace of its steps, and the program that it compiled."""

import gzip
from pathlib import Path

import pytest

from hpcai.metrics.profiles.kernels import kernel_breakdown
from hpcai.parsers.device_trace import read_device_trace
from hpcai.parsers.hlo.traffic import read_traffic

RECORDED = Path(__file__).parents[2] / "data/h100"
STEPS, STEP_S = 5, 0.06029
BATCH, PARAMETERS = 16, 8_907_556
SCALARS_BYTES = 128
"""Room for rate, counters, seed and loss."""


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((RECORDED / f"{name}.gz").read_bytes()))
    return path


def test_kernels_of_a_trace_fill_the_step_that_was_timed_without_it(tmp_path: Path) -> None:
    table = read_device_trace(unpacked("cosmoflow_tf32.xplane.pb", tmp_path)).table
    assert table["total_s"].sum() / STEPS == pytest.approx(STEP_S, rel=0.01)
    shares = kernel_breakdown(table).set_index("category")["share_ratio"]
    assert shares.idxmax() == "convolution"
    assert shares.get("other", 0.0) < 0.01


def test_the_program_of_a_gpu_moves_at_least_weights_and_batch(tmp_path: Path) -> None:
    traffic = read_traffic(unpacked("cosmoflow_bf16.hlo.txt", tmp_path))
    assert traffic.reason == ""
    weights_and_momentum = 2 * 4 * PARAMETERS
    samples = BATCH * 128**3 * 4 * 2
    targets = BATCH * 4 * 4
    least = 2 * weights_and_momentum + samples + targets
    assert least <= traffic.compulsory_bytes < least + SCALARS_BYTES
    # Between one pass over the activations of the first layer and what the copy's rate allows in the measured step.
    first_layer = BATCH * 128**3 * 32 * 2
    assert first_layer < traffic.accessed_bytes < 2.89e12 * 0.109
