"""What the package of a benchmark declares as its ``WORKLOAD``; nothing heavy is imported for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceCase:
    """How `hpcai gpu` measures training steps of a benchmark on one device.

    Attributes
    ----------
    official, tiny
        Benchmark file with samples of the official size, and the small one that tries the path; each with the batch
        that is tried first: half of it where it is too large for the device.
    bf16_goal_ratio
        Share of the measured rate of matrix products that counts as reached in bf16; a goal of this project.
    """

    official: tuple[str, int]
    tiny: tuple[str, int]
    bf16_goal_ratio: float


@dataclass(frozen=True)
class Declaration:
    """Where the parts of a benchmark are, as ``module:attribute`` below its folder; each is loaded when it is needed.

    Attributes
    ----------
    settings
        A subclass of `hpcai.config.benchmark.BenchmarkSettings`; its key ``workload`` is the folder's name.
    data
        A subclass of `hpcai.data.module.DataModule`.
    training
        A subclass of `hpcai.training.workload.Workload`.
    mlperf
        `MlperfFacts`; None for a benchmark that MLPerf HPC does not have.
    device_case
        For a benchmark that is measured on a single device.
    """

    settings: str
    data: str
    training: str
    mlperf: str | None = None
    device_case: DeviceCase | None = None


@dataclass(frozen=True)
class MlperfFacts:
    """A benchmark of MLPerf HPC: its names there, and what our tables call its published results.

    ``submission.md`` beside it is the part of a submission's README that describes the implementation.

    Attributes
    ----------
    name
        In logs, and of its folder in rounds.
    title
        For people.
    dataset
        Official dataset: a row of config/datasets.tsv.
    quality_metric, quality_unit
        As the training reports them.
    reference_samples
        Training samples of the reference convergence points of version 1.0 and later.
    log_settings
        Path in the table of rules (``hpcai/rules/mlperf_hpc.yaml``) by the key of a log; those that all benchmarks log
        are not repeated.
    first_round_datasets
        Datasets that the first round (v0.7) trained on instead, by their number of training samples.
    first_round_model
        Name of the benchmark as it was in the first round, if it had another model and evaluated by steps.
    first_round_work_ratio
        Work of a sample in the first round over that of later ones.
    """

    name: str
    title: str
    dataset: str
    quality_metric: str
    quality_unit: str = ""
    reference_samples: int = field(kw_only=True)
    log_settings: Mapping[str, str] = field(kw_only=True)
    first_round_datasets: Mapping[int, str] = field(default_factory=dict, kw_only=True)
    first_round_model: str | None = field(default=None, kw_only=True)
    first_round_work_ratio: float = field(default=1.0, kw_only=True)
