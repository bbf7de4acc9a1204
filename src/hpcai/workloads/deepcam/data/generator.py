"""The generator: frames of `hpcai.workloads.deepcam.data.climate` in the official files, and their statistics."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.files import write_atomically
from hpcai.data.processes import in_processes
from hpcai.workloads.deepcam.data.climate import Grid, make_frame
from hpcai.workloads.deepcam.data.frame import encode_frame
from hpcai.workloads.deepcam.data.statistics import (
    STATISTICS_FILE,
    ChannelStatistics,
    encode_statistics,
    merge_statistics,
    summarise_frame,
)
from hpcai.workloads.deepcam.settings import DeepCamData

GENERATOR_VERSION = 1


@dataclass(frozen=True)
class _Job:
    split: Split
    number: int


def generate_dataset(settings: DeepCamData, folder: Path, workers: int | None = None) -> dict[str, object]:
    """Write all frames below ``folder`` and ``stats.h5`` of the training frames; return the generator's facts.

    Files depend on the settings alone, not on the number of workers. A longer dataset starts with the shorter one.

    Parameters
    ----------
    settings
        Size, numbers of samples and seed.
    folder
        Receives train/, validation/ and stats.h5; the caller publishes it.
    workers
        Number of processes; defaults to the usable processors.
    """
    jobs = [_Job(split, number) for split in SPLITS for number in range(settings.samples(split))]
    for split in SPLITS:
        (folder / split).mkdir(parents=True, exist_ok=True)
    summaries = list(in_processes(partial(_write_frame, settings, folder), jobs, "frames", workers))
    train = merge_statistics(summaries[: settings.train_samples])
    write_atomically(folder / STATISTICS_FILE, encode_statistics(train))
    return {"version": GENERATOR_VERSION, "seed": settings.seed}


def _write_frame(settings: DeepCamData, folder: Path, job: _Job) -> ChannelStatistics:
    random = np.random.default_rng([settings.seed, SPLITS.index(job.split), job.number])
    data, labels, loose_labels = make_frame(Grid(settings.height, settings.width), random)
    write_atomically(folder / job.split / f"data-{job.number + 1:06d}.h5", encode_frame(data, labels, loose_labels))
    return summarise_frame(data)
