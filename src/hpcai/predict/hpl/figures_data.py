"""Data of Figs 5, 6 and 7 of Hu and Lu 2021, and of the same questions for other variants."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.predict.hpl.assumptions import AVX512_PEAK_FLOP_PER_S, GPU_PEAK_FLOP_PER_S
from hpcai.predict.hpl.counts import Values
from hpcai.predict.hpl.inverse import find_host_link
from hpcai.predict.hpl.published import SOURCE
from hpcai.predict.hpl.scenario import Scenario, Variant, rates_of_peaks
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import HOST_LINKS_BYTES_PER_S, plain_network

VARIANTS_SHOWN: tuple[Variant, ...] = ("device", "balance", "pipe")
BLOCKS = (128, 256, 512, 1024)
MULTIPLIERS = (1, 2, 4, 8)
TARGET_RATIO = 0.75
PIPE_CHUNKS = 64
NETWORKS_BIT_PER_S = (1e9, 2e9, 5e9, 10e9, 20e9, 50e9, 100e9, 200e9, 500e9, 1000e9)
_NAMES = {rate: name for name, rate in HOST_LINKS_BYTES_PER_S.items() if name.startswith("paper_")}
PAPER_HOST_LINKS = tuple(_NAMES)


def single_node_scenario(
    block: Values = 256, host_link_bytes_per_s: Values = 32e9, gpu_multiplier: Values = 1, variant: Variant = "device"
) -> Scenario:
    """Return the node of Figs 5 and 6: N = 125,000, four GPUs of 6.6 TFLOP/s times a multiplier, e 0.9.

    The processors' peak of 2.6624 TFLOP/s and ``pipe``'s 64 chunks are assumed, because the source gives neither.
    """
    gpu_peak = GPU_PEAK_FLOP_PER_S * np.asarray(gpu_multiplier, dtype=np.float64)
    rates = rates_of_peaks(AVX512_PEAK_FLOP_PER_S, gpu_peak, 4, blas_ratio=0.9, gpu_ratio=0.9)
    return Scenario(
        order=125000,
        block=block,
        rates=rates,
        variant=variant,
        host_link_bytes_per_s=host_link_bytes_per_s,
        chunks=PIPE_CHUNKS,
    )


def two_node_scenario(
    network_bit_per_s: Values, host_link_bytes_per_s: Values = 32e9, variant: Variant = "device"
) -> Scenario:
    """Return the two nodes of Fig. 7: N = 176,000, NB = 128, four GPUs each, e 0.85/0.8/0.8/0.9, star."""
    rates = rates_of_peaks(
        AVX512_PEAK_FLOP_PER_S, GPU_PEAK_FLOP_PER_S, 4, blas_ratio=0.85, cpu_ratio=0.8, gpu_ratio=0.8
    )
    return Scenario(
        order=176000,
        block=128,
        nodes=2,
        rates=rates,
        variant=variant,
        host_link_bytes_per_s=host_link_bytes_per_s,
        network=plain_network(network_bit_per_s),
        network_efficiency_ratio=0.9,
        topology="star",
        chunks=PIPE_CHUNKS,
    )


def sweep_figures(variants: Sequence[Variant] = VARIANTS_SHOWN) -> pd.DataFrame:
    """Return the data of Figs 5, 6 and 7 for each variant (table ``hpl_sweeps``).

    The efficiency is over the peak of the GPUs alone. Fig. 6 has one row per block and multiplier, with the slowest
    host link that keeps :data:`TARGET_RATIO`; NaN with a reason if there is none.
    """
    parts = [sweep(variant) for sweep in (sweep_figure_5, sweep_figure_6, sweep_figure_7) for variant in variants]
    return pd.concat(parts, ignore_index=True)


def sweep_figure_5(variant: Variant) -> pd.DataFrame:
    """Return efficiency over host link, block and GPU multiplier."""
    grid = _grid(block=BLOCKS, host_link_bytes_per_s=PAPER_HOST_LINKS, gpu_multiplier=MULTIPLIERS)
    block, link, multiplier = (grid[name].to_numpy() for name in grid)
    scenario = single_node_scenario(block, link, multiplier, variant)
    return _frame("5", scenario, grid.assign(reason=""))


def sweep_figure_6(variant: Variant) -> pd.DataFrame:
    """Return the host link that keeps the target, over block and GPU multiplier."""
    grid = _grid(block=BLOCKS, gpu_multiplier=MULTIPLIERS)
    answers = [
        find_host_link(single_node_scenario(block, 32e9, multiplier, variant), TARGET_RATIO)
        for block, multiplier in grid.itertuples(index=False)
    ]
    link = np.array([answer.value for answer in answers])
    # Unreachable targets have no scenario: compute with a stand-in, then blank the result.
    blocks, multipliers = grid["block"].to_numpy(), grid["gpu_multiplier"].to_numpy()
    scenario = single_node_scenario(blocks, np.where(np.isnan(link), 1.0, link), multipliers, variant)
    known = grid.assign(host_link_bytes_per_s=link, reason=[answer.reason for answer in answers])
    frame = _frame("6", scenario, known.assign(target_ratio=TARGET_RATIO))
    frame.loc[np.isnan(link), ["time_s", "rate_flop_per_s", "efficiency_ratio"]] = np.nan
    return frame


def sweep_figure_7(variant: Variant) -> pd.DataFrame:
    """Return efficiency over network and host link."""
    grid = _grid(network_bit_per_s=NETWORKS_BIT_PER_S, host_link_bytes_per_s=PAPER_HOST_LINKS)
    scenario = two_node_scenario(
        grid["network_bit_per_s"].to_numpy(), grid["host_link_bytes_per_s"].to_numpy(), variant
    )
    names = [f"{rate / 1e9:g} Gbit/s" for rate in grid["network_bit_per_s"]]
    return _frame(
        "7", scenario, grid.assign(block=128, gpu_multiplier=1, topology="star", network_name=names, reason="")
    )


def _chunks_words(scenario: Scenario) -> str:
    return f", {PIPE_CHUNKS} chunks" if scenario.variant == "pipe" else ""


def _grid(**values: Sequence[float]) -> pd.DataFrame:
    return pd.DataFrame(itertools.product(*values.values()), columns=list(values))


def _frame(figure: str, scenario: Scenario, known: pd.DataFrame) -> pd.DataFrame:
    result = simulate(scenario)
    blank: dict[str, float | str] = {
        "network_bit_per_s": np.nan,
        "network_name": "",
        "topology": "",
        "target_ratio": np.nan,
    }
    frame = pd.DataFrame({**blank, **known}, index=known.index).assign(
        figure=figure,
        variant=result.variant,
        form=result.form,
        nodes=int(np.max(np.asarray(scenario.nodes))),
        gpus_per_node=4,
        order=int(np.max(np.asarray(scenario.order))),
        chunks=PIPE_CHUNKS if scenario.variant == "pipe" else None,
        time_s=result.time_s,
        rate_flop_per_s=result.rate_flop_per_s,
        peak_flop_per_s=result.peak_flop_per_s,
        efficiency_ratio=result.efficiency_ratio,
        host_link_name=known["host_link_bytes_per_s"].map(_NAMES).fillna(""),
        method=result.method,
        source=f"{SOURCE}, parameters of Fig. {figure}; assumed: processors of 2.6624 TFLOP/s{_chunks_words(scenario)}",
    )
    return frame[list(columns_of("hpl_sweeps"))].astype({"gpu_multiplier": float, "chunks": "Int64"})
