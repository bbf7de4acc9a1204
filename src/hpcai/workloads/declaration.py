"""Declarations that each benchmark package exports as ``WORKLOAD``; importing them loads nothing heavy."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceCase:
    """How `hpcai gpu` measures training steps of a benchmark on one device.

    Attributes
    ----------
    official, tiny
        Benchmark files: one with samples of the official size, and a small one that tests the path. Each comes with the
        batch to try first; the batch is halved where it is too large for the device.
    bf16_goal_ratio
        Fraction of the measured matrix-product rate to reach in bf16; a goal of this project.
    """

    official: tuple[str, int]
    tiny: tuple[str, int]
    bf16_goal_ratio: float


@dataclass(frozen=True)
class Declaration:
    """Locations of a benchmark's parts, as ``module:attribute`` below its folder; each loads on first use.

    Attributes
    ----------
    settings
        A subclass of `hpcai.config.benchmark.BenchmarkSettings`; its key ``workload`` is the folder's name.
    data
        A subclass of `hpcai.data.module.DataModule`.
    training
        A subclass of `hpcai.training.workload.Workload`.
    title
        Display title; without one, the folder's name.
    mlperf
        `MlperfFacts`; None for a benchmark outside MLPerf HPC.
    device_case
        Set for a benchmark that is measured on a single device.
    """

    settings: str
    data: str
    training: str
    title: str = ""
    mlperf: str | None = None
    device_case: DeviceCase | None = None


@dataclass(frozen=True)
class MlperfFacts:
    """MLPerf HPC's names for a benchmark, and the names of its published results in our tables.

    ``submission.md`` in the same folder describes the implementation; it becomes part of a submission's README.

    Attributes
    ----------
    name
        Name in logs, and of the benchmark's folder in rounds.
    dataset
        Official dataset: a row of config/datasets.tsv.
    quality_metric, quality_unit
        As the training reports them.
    reference_samples
        Training samples of the reference convergence points of version 1.0 and later.
    log_settings
        Maps keys of a log to paths in the table of rules (``hpcai/rules/mlperf_hpc.yaml``); keys that all benchmarks
        log are not repeated.
    first_round_datasets
        Datasets that the first round (v0.7) trained on instead, by their number of training samples.
    first_round_model
        Name of the first round's version of the benchmark, if it had another model and evaluated by steps.
    first_round_work_ratio
        Work per sample in the first round, relative to later rounds.
    """

    name: str
    dataset: str
    quality_metric: str
    quality_unit: str = ""
    reference_samples: int = field(kw_only=True)
    log_settings: Mapping[str, str] = field(kw_only=True)
    first_round_datasets: Mapping[int, str] = field(default_factory=dict, kw_only=True)
    first_round_model: str | None = field(default=None, kw_only=True)
    first_round_work_ratio: float = field(default=1.0, kw_only=True)
