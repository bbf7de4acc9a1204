"""Measurements of an acceptance, also simulated ones from measured noise."""

import numpy as np

from hpcai.config.acceptance import Acceptance
from hpcai.records.acceptance import Measured, Series, utc_now

HOSTS = [f"n{number}" for number in range(1, 65)]
# Relative standard deviation of one repetition. Measured by `python -m hpcai.machine.acceptance` and by two ranks of
# hpcai.training.allreduce_bench on a shared machine of two cores, 25 November 2026: pooled over five starts of seven
# repetitions each.
NOISE = {
    "gemm fp32": 0.02,
    "memory copy": 0.02,
    "memory add": 0.02,
    "scratch write and fsync": 0.04,
    "scratch read": 0.04,
    "training": 0.02,
}
LINK_NOISE = {"allreduce latency": 0.05, "allreduce bandwidth": 0.05}
NODE_SPREAD = 0.005
"""Assumed standard deviation between healthy nodes: one machine cannot show it."""
HEAVY_TAIL = 5
"""Degrees of freedom of the simulated noise: real noise has more outliers than a normal one."""


def make_series(host, measure, values, *, kind="node", nodes=None, **changes):
    """Return the repetitions of one subject."""
    unit = "s" if "latency" in measure else "samples/s" if measure == "training" else "B/s"
    fields = {"kind": kind, "subject": host, "nodes": nodes or (host,), "measure": measure, "unit": unit}
    return Series.model_validate({**fields, "values": tuple(values), **changes})


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
    from hpcai.measure.acceptance import chosen_rounds

    slowed = slowed or {}
    series = []
    for measure, noise in NOISE.items():
        for host in hosts:
            loss = slowed.get(host, 0.0) if measures is None or measure in measures else 0.0
            series.append(make_series(host, measure, _values(random, noise, loss, 7)))
    for pair in (pair for pairs in chosen_rounds(hosts, pairs) for pair in pairs) if pairs else ():
        for measure, noise in LINK_NOISE.items():
            in_it = measures is None or measure in measures
            loss = max(slowed.get(host, 0.0) for host in pair) if in_it else 0.0
            rates = _values(random, noise, loss, 20)
            own = 1 / rates if "latency" in measure else rates
            series.append(make_series(" + ".join(pair), measure, own, kind="pair", nodes=pair))
    return make_measured(series, hosts)


def _values(random, noise, loss, count):
    own = np.exp(random.normal(0, NODE_SPREAD))
    scale = noise / np.sqrt(HEAVY_TAIL / (HEAVY_TAIL - 2))
    return 1e9 * (1 - loss) * own * np.exp(scale * random.standard_t(HEAVY_TAIL, count))
