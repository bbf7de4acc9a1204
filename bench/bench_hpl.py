"""HPL scenarios per second on one core at N = 125,000, NB = 256, compared with a Python loop of the same equations.

Both compute alternately. The loop is the tests' reference, and its results must be equal here.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from unit.predict.hpl.plain_loop import loop_time_s

from hpcai.predict.hpl.counts import Floats
from hpcai.predict.hpl.scenario import VARIANTS, NodeRates, Rows, Scenario, Variant
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import plain_network

ORDER, BLOCK, NODES, CHUNKS = 125_000, 256, 2, 8
SCENARIOS, LOOPED = 4000, 20
CPU_FLOP_PER_S, GPU_FLOP_PER_S, NETWORK_BIT_PER_S = 2.396e12, 21.4e12, 100e9
GOAL_PER_S = 10_000


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.perf_counter()
    result = action()
    return time.perf_counter() - started_s, result


def make_scenario(variant: Variant, links: Floats) -> Scenario:
    """Return two nodes that differ in their host link; ``cpu`` with all three rates."""
    rates = NodeRates(
        cpu_rate_flop_per_s=CPU_FLOP_PER_S * (links / links.mean()),
        gpu_rate_flop_per_s=GPU_FLOP_PER_S,
        cpu_peak_flop_per_s=CPU_FLOP_PER_S,
        gpu_peak_flop_per_s=GPU_FLOP_PER_S,
    )
    return Scenario(
        order=ORDER,
        block=BLOCK,
        rates=rates,
        variant=variant,
        nodes=NODES,
        host_link_bytes_per_s=links,
        network=plain_network(NETWORK_BIT_PER_S),
        topology="mesh",
        chunks=CHUNKS,
        trsm_rate_flop_per_s=2e12,
        panel_rate_flop_per_s=1e12,
    )


def loop(variant: Variant, links: Floats, chosen: Rows) -> list[float]:
    cpu = CPU_FLOP_PER_S * (links / links.mean())
    peaks, rates = (CPU_FLOP_PER_S, GPU_FLOP_PER_S), (2e12, 1e12)
    same: dict[str, Any] = {"nodes": NODES, "net": NETWORK_BIT_PER_S, "tau": 1.0, "chunks": CHUNKS}
    return [
        loop_time_s(
            variant, ORDER, BLOCK, float(cpu[i]), GPU_FLOP_PER_S, link=float(links[i]), peaks=peaks, rates=rates, **same
        )
        for i in chosen
    ]


def compare(variant: Variant, rounds: int) -> float:
    """Compute alternately; print and return scenarios per second."""
    links = np.linspace(16e9, 128e9, SCENARIOS)
    chosen = np.linspace(0, SCENARIOS - 1, LOOPED).astype(int)
    scenario = make_scenario(variant, links)
    simulate(scenario)
    own_per_s, loop_per_s = [], []
    for _ in range(rounds):
        own_s, result = timed(lambda: simulate(scenario))
        loop_s, expected = timed(lambda: loop(variant, links, chosen))
        np.testing.assert_allclose(result.time_s[chosen], expected, rtol=1e-9)
        own_per_s.append(SCENARIOS / own_s)
        loop_per_s.append(LOOPED / loop_s)
    ratios = [own / plain for own, plain in zip(own_per_s, loop_per_s, strict=True)]
    middle = statistics.median(own_per_s)
    print(
        f"  {variant:11} {middle:9,.0f} scenarios/s ({min(own_per_s):,.0f} to {max(own_per_s):,.0f}); "
        f"loop {statistics.median(loop_per_s):6,.0f}/s; ratio {statistics.median(ratios):6.1f} x "
        f"({min(ratios):.1f} to {max(ratios):.1f})"
    )
    return middle


def main() -> None:
    """Compare all variants on one core; fail if the default variant misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"N = {ORDER:,}, NB = {BLOCK}, {ORDER // BLOCK} steps; {SCENARIOS} scenarios at once, {LOOPED} by the loop")
    found = {
        variant: compare(variant, rounds) for variant in ("device", *(name for name in VARIANTS if name != "device"))
    }
    print(f"  goal: at least {GOAL_PER_S:,} scenarios/s (device); answers equal within 1e-9")
    sys.exit(found["device"] < GOAL_PER_S)


if __name__ == "__main__":
    main()
