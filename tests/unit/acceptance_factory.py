"""Measurements of an acceptance, also simulated ones from measured noise."""

import math

import numpy as np

from hpcai.config.acceptance import Acceptance
from hpcai.metrics.statistics.fleet import MEDIAN_VARIANCE
from hpcai.records.acceptance import Measured, Series, utc_now

HOSTS = [f"n{number}" for number in range(1, 65)]
# Relative standard deviation of one repetition (hpcai.metrics.statistics.fleet.shamos), measured on a virtual machine
# of two cores in November 2026. Products: windows of half a second by `python -m hpcai.machine.acceptance`, while other
# programs used the machine (0.11). Copies, files and steps: calls of a copy, files of 256 MiB, and blocks of eight
# steps of CosmoFlow on two ranks, in a study that had the machine to itself (results/characterise, raw/steps.csv).
# Blocks of twelve copies, which the acceptance takes, have less.
NOISE = {
    "gemm fp32": 0.11,
    "memory copy": 0.10,
    "memory add": 0.11,
    "scratch write and fsync": 0.09,
    "scratch read": 0.074,
    "training": 0.035,
}
# The same study: transfers between two ranks had 0.32 (4 bytes) and 0.30 (16 MiB); medians of 25 have a fourth of it.
LINK_NOISE = {"allreduce latency": 0.08, "allreduce bandwidth": 0.075}
LINK_VALUES = 40
# Of three nodes on one quiet host that take turns, in matrix products: standard deviation of a turn, and that of a
# pass, which the nodes share. Measured by tests/slurm/test_acceptance.py with twelve passes (measurements.json, centred
# by pass and node); memory, storage and training scatter more.
TURN_NOISE, PASS_DRIFT = 0.028, 0.022
FIXED = {"training": 24}
"""Repetitions of measurements that do not go on until they are precise."""
MOST = {"gemm fp32": 240}
"""As many windows as there is time for."""
NODE_SPREAD = 0.005
"""Assumed standard deviation between healthy nodes: one machine cannot show it."""
HEAVY_TAIL, SHAMOS_OF_TAIL = 5, 1.13
"""Degrees of freedom of the simulated noise, which has more outliers than a normal one, and its robust scale."""


def make_series(host, measure, values, *, kind="node", nodes=None, **changes):
    """Return the repetitions of one subject."""
    unit = "s" if "latency" in measure else "samples/s" if measure == "training" else "B/s"
    fields = {"kind": kind, "subject": host, "nodes": nodes or (host,), "measure": measure, "unit": unit}
    return Series.model_validate({**fields, "values": tuple(np.asarray(values).tolist()), **changes})


def make_measured(series, hosts, machine_nodes=None, **changes):
    """Return the measurements of a machine."""
    fields = {
        "machine": "box", "machine_nodes": machine_nodes or len(hosts), "hosts": tuple(hosts), "launcher": "horovodrun",
        "slurm_job": "", "started_utc": utc_now(), "ended_utc": utc_now(), "settings": Acceptance(),
        "code": {"commit": None, "dirty": None, "lock_sha256": None}, "series": tuple(series),
    }  # fmt: skip
    return Measured.model_validate({**fields, **changes})


def simulate(random, slowed=None, measures=None, *, hosts=HOSTS, pairs=4):
    """Return simulated measurements: every node has its own speed, and every repetition its noise.

    Parameters
    ----------
    slowed
        Share of speed that nodes lose, in some measurements only (default: all).
    pairs
        Rounds of pairs.
    """
    from hpcai.measure.acceptance_links import chosen_rounds

    slowed = slowed or {}
    series = []
    for measure, noise in NOISE.items():
        for host in hosts:
            loss = slowed.get(host, 0.0) if measures is None or measure in measures else 0.0
            series.append(make_series(host, measure, _values(random, noise, loss, repeats_of(measure))))
    for pair in (pair for pairs in chosen_rounds(hosts, pairs) for pair in pairs) if pairs else ():
        for measure, noise in LINK_NOISE.items():
            in_it = measures is None or measure in measures
            loss = max(slowed.get(host, 0.0) for host in pair) if in_it else 0.0
            rates = _values(random, noise, loss, LINK_VALUES)
            own = 1 / rates if "latency" in measure else rates
            series.append(make_series(" + ".join(pair), measure, own, kind="pair", nodes=pair))
    return make_measured(series, hosts)


def repeats_of(measure):
    """Return how many repetitions make a measurement precise."""
    settings = Acceptance()
    precise = math.ceil(MEDIAN_VARIANCE * (NOISE[measure] / settings.precision_ratio) ** 2)
    return FIXED.get(measure, min(max(settings.repeats, precise), MOST.get(measure, precise)))


def _values(random, noise, loss, count):
    own = np.exp(random.normal(0, NODE_SPREAD))
    return 1e9 * (1 - loss) * own * np.exp(noise * random.standard_t(HEAVY_TAIL, count) / SHAMOS_OF_TAIL)
