"""The generator: cubes of particle counts from linear theory whose four parameters can be learned from the cube.

A log-normal random field (Coles & Jones 1991, MNRAS 248, 1) with a CDM power spectrum is sampled at four lookback
times; the logarithm of the density is the linear field. Fourier amplitudes are fixed to sqrt(P), phases are random
(Angulo & Pontzen 2016, MNRAS 462, L1), which removes most of the cosmic variance of a small box. Voxels have a
fixed proper size, so expansion thins the counts out: the mean is proportional to omega_m / a^3.
Each sample is its own universe; the official dataset cuts 64 cubes out of each.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.processes import in_processes
from hpcai.data.tfrecord import write_records
from hpcai.workloads.cosmoflow.data.cosmology import Universe, age_gyr, growth, power_spectrum, scale_factor_at_lookback
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData, Priors

TOO_YOUNG = Message(
    "generator.too_young",
    "found a universe of {age_gyr:.2f} Gyr (omega_m {omega_m}, h_0 {h_0}), expected more than the oldest "
    "snapshot's {oldest_gyr} Gyr; lower one of them",
)

GENERATOR_VERSION = 1
LOOKBACK_GYR = (0.0, 2.0, 4.0, 6.0)
VOXEL_MPC_PER_H = (16.0, 7.0, 16.0, 7.0)
"""Proper edges of a voxel in the four snapshots: two scales, whose contrast separates sigma_8 from n_s."""
MEAN_COUNT = 1.0
"""Particles per voxel today at omega_m = 0.3 (each snapshot is sub-sampled to it); few, so that ln(1 + x) is small."""
REFERENCE_OMEGA_M = 0.3


def generate_dataset(settings: CosmoFlowData, folder: Path, workers: int | None = None) -> dict[str, object]:
    """Write all samples below ``folder`` and return the facts of the generator for the manifest.

    Files depend on the settings alone, not on the number of workers. A longer dataset starts with the shorter one.

    Parameters
    ----------
    settings
        Size, edition, seed and priors.
    folder
        Receives train/ and validation/; the caller publishes it.
    workers
        Number of processes; defaults to the usable processors.

    Raises
    ------
    DatasetError
        If a universe of the priors is younger than the oldest snapshot, or a count does not fit int16.
    """
    import scipy.stats  # noqa: F401  the processes inherit it; to examine samples, nobody needs its 60 MB

    _require_old_universes(settings.priors)
    jobs = [_Job(split, number) for split in SPLITS for number in range(settings.samples(split))]
    for split in SPLITS:
        (folder / split).mkdir(parents=True, exist_ok=True)
    for _ in in_processes(partial(_write_sample, settings, folder), jobs, "samples", workers):
        pass
    return {
        "version": GENERATOR_VERSION,
        "seed": settings.seed,
        "priors": {name: list(limits) for name, limits in settings.priors.model_dump().items()},
        "lookback_gyr": list(LOOKBACK_GYR),
        "voxel_mpc_per_h": list(VOXEL_MPC_PER_H),
        "mean_count": MEAN_COUNT,
    }


def make_sample(settings: CosmoFlowData, split: Split, number: int) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return counts, shape (edge, edge, edge, 4), and targets in [-1, 1], shape (4,), of one universe."""
    unit = _draw_parameters(settings, split)[number]
    low, high = np.array(list(settings.priors.model_dump().values())).T
    universe = Universe(*(low + unit * (high - low)).tolist())
    random = np.random.default_rng([settings.seed, SPLITS.index(split), number])
    phases = _random_phases(settings.edge, random)
    snapshots = [
        random.poisson(_expected_counts(universe, phases, lookback_gyr, voxel_mpc_per_h))
        for lookback_gyr, voxel_mpc_per_h in zip(LOOKBACK_GYR, VOXEL_MPC_PER_H, strict=True)
    ]
    counts = np.stack(snapshots, axis=-1)
    if counts.max() > np.iinfo(np.int16).max:
        raise DatasetError(
            f"{split} sample {number}: found the count {counts.max()}, expected at most {np.iinfo(np.int16).max} "
            f"(int16) for {universe}; narrow priors.sigma_8 or priors.n_s"
        )
    return counts.astype(np.int16), (2 * unit - 1).astype(np.float32)


@dataclass(frozen=True)
class _Job:
    split: Split
    number: int


def _write_sample(settings: CosmoFlowData, folder: Path, job: _Job) -> None:
    payload = encode_sample(*make_sample(settings, job.split, job.number))
    path = folder / job.split / f"univ_ics_{job.split}_a{job.number + 1:06d}_000.tfrecord"
    write_records(path, [payload], compress=settings.edition == "gzip")


def _require_old_universes(priors: Priors) -> None:
    omega_m, h_0 = priors.omega_m[1], priors.h_0[1]
    if omega_m >= 1:
        raise DatasetError(f"priors.omega_m: found {omega_m}, expected less than 1 (a flat universe); lower it")
    youngest = Universe(omega_m, 1.0, 1.0, h_0)
    if age_gyr(1.0, youngest) <= LOOKBACK_GYR[-1]:
        raise DatasetError(
            at(
                "priors",
                TOO_YOUNG(age_gyr=age_gyr(1.0, youngest), omega_m=omega_m, h_0=h_0, oldest_gyr=LOOKBACK_GYR[-1]),
            )
        )


def _draw_parameters(settings: CosmoFlowData, split: Split) -> NDArray[np.float64]:
    """Return scrambled Sobol points in [0, 1)^4: even coverage of the priors with few samples."""
    from scipy.stats import qmc

    scramble = np.random.default_rng([settings.seed, SPLITS.index(split)])
    bits = max(1, (settings.samples(split) - 1).bit_length())
    return np.asarray(qmc.Sobol(len(Priors.model_fields), rng=scramble).random_base2(bits))


def _wave_numbers(edge: int) -> NDArray[np.float64]:
    """Return |k| of the half spectrum in units of 1/voxel, shape (edge, edge, edge/2 + 1)."""
    full = 2 * np.pi * np.fft.fftfreq(edge)
    half = 2 * np.pi * np.fft.rfftfreq(edge)
    return np.asarray(np.sqrt(full[:, None, None] ** 2 + full[None, :, None] ** 2 + half[None, None, :] ** 2))


def _random_phases(edge: int, random: np.random.Generator) -> NDArray[np.complex128]:
    """Return the spectrum of white noise with every amplitude at its expectation."""
    noise = np.fft.rfftn(random.standard_normal((edge, edge, edge)))
    return np.asarray(noise / np.abs(noise) * edge**1.5)


def _expected_counts(
    universe: Universe, phases: NDArray[np.complex128], lookback_gyr: float, voxel_mpc_per_h: float
) -> NDArray[np.float64]:
    """Return the mean of each voxel's Poisson distribution in one snapshot."""
    edge = phases.shape[0]
    scale_factor = scale_factor_at_lookback(lookback_gyr, universe)
    comoving_mpc_per_h = voxel_mpc_per_h / scale_factor
    lengths, place = np.unique(np.round(_wave_numbers(edge), 9), return_inverse=True)
    # The mean of the field is zero: the first wave number is 0.
    spectrum = np.append(0.0, power_spectrum(lengths[1:] / comoving_mpc_per_h, universe))
    power = spectrum[place].reshape(phases.shape) * growth(scale_factor, universe.omega_m) ** 2 / comoving_mpc_per_h**3
    field = np.fft.irfftn(phases * np.sqrt(power), s=(edge, edge, edge), axes=(0, 1, 2))
    # Each plane of the half spectrum but the first and last represents two modes.
    variance = (2 * power.sum() - power[..., 0].sum() - power[..., -1].sum()) / edge**3
    mean = MEAN_COUNT * universe.omega_m / REFERENCE_OMEGA_M / scale_factor**3
    return np.asarray(mean * np.exp(field - variance / 2))
