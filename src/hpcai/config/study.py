"""The study file: benchmarks, machine, rules, seeds and limits."""

import json
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hpcai.config.acceptance import Acceptance
from hpcai.config.base import Count, Engine, FolderPath, Name, SafePath, Seed, Settings, Text
from hpcai.config.prediction import Prediction
from hpcai.core.checkout import source_root
from hpcai.core.disturbance import Tolerance
from hpcai.core.messages import Message
from hpcai.core.units import Seconds

STAGING_ON_CLOCK = Message(
    "study.staging_on_clock", "time_staging: rule set {rule_set} demands true (staging is on the clock)"
)

WARM_STEPS = 2
"""Steps of a profiled run before kernels are observed: the first ones still allocate memory and fill the input."""
ProfiledSteps = Annotated[int, Field(gt=WARM_STEPS, strict=True)]
RuleSet = Literal["hpc_1.0.0", "hpc_2.0.0", "hpc_3.0.0"]


class Submission(Settings):
    """Submitter and submission: the five submission keys of an MLPerf log."""

    org: Text = Field(default="unnamed", min_length=1)
    platform: Text = Field(default="unnamed", min_length=1)
    division: Literal["closed", "open"] = "closed"
    status: Literal["cloud", "onprem", "preview", "research"] = "research"


class Limits(Settings):
    """Time limits after which a run is recorded as timed out or failed; beyond `disturbance` it is repeated."""

    run_s: Seconds = Field(
        default=3600.0, gt=0, description="Maximum duration of a run, including staging and evaluation."
    )
    stall_s: Seconds = Field(default=600.0, gt=0, description="Maximum time without progress from rank 0.")
    disturbance: Tolerance = Tolerance()

    @property
    def longest_s(self) -> float:
        """Longest time of a run in its job, which repeats it if others disturb it [s]."""
        return self.run_s * (1 + self.disturbance.repeats)


class Study(Settings):
    """One study file."""

    name: Name
    title: Text
    machine: Name
    benchmarks: tuple[Name, ...] = Field(min_length=1)
    runs: Name = Field(default="runs", description="Run table: the file runs/NAME.tsv of the configuration folder.")
    engine: Engine | None = Field(
        default=None,
        description="Engine of run-table rows that name none; blank: horovod.",
    )
    weak_runs: Name | None = Field(
        default=None, description="Table of weak-scaling groups: the file runs/NAME.tsv; blank: none is measured."
    )
    config_dir: FolderPath | None = Field(
        default=None,
        description="Folder of the other files; default: the nearest above the study with machines/, else the clone's.",
    )
    rule_set: RuleSet = Field(default="hpc_3.0.0", description="MLPerf HPC rule set that judges the runs.")
    time_staging: bool = Field(
        default=True, description="Staging is on the clock; rule sets before 3.0.0 allow nothing else."
    )
    seed: Seed = 20200716
    seeds: Literal["derived", "entropy"] = Field(
        default="derived",
        description="Each run's seed comes from the study's seed and the run's name, or from the system's entropy.",
    )
    measure: bool = Field(default=True, description="False: only analyse existing runs; no run can be started.")
    profile_steps: ProfiledSteps = Field(default=8, description="Training steps of a profiled run.")
    profile_variants: tuple[Name, ...] = Field(
        default=(), description="Variants that are also run under the profilers; empty: all."
    )
    power_steps: Count = Field(default=100, description="Training steps of a run whose power is sampled.")
    published: tuple[Name, ...] = Field(
        default=(),
        description=(
            "Files published/NAME.yaml of the configuration folder: published results to rank and plot with ours."
        ),
    )
    compare_with: tuple[SafePath, ...] = Field(
        default=(),
        description="Results folders of earlier studies, the oldest first: the history; the last is compared with.",
    )
    rank_with: tuple[SafePath, ...] = Field(
        default=(), description="Results folders of other studies, of any machine, whose scores are ranked with ours."
    )
    rounds: tuple[SafePath, ...] = Field(
        default=(),
        description="Published rounds of MLPerf HPC to show beside our runs: result repositories, folders or archives.",
    )
    show_first: tuple[Name, ...] = Field(
        default=(), description="Figures that the report shows before all else, such as variant_effects or scaling."
    )
    corresponds_to: Text = Field(
        default="",
        description="Published figure that the study is for, named below the figures that the report shows first.",
    )
    predict: Prediction = Field(default=Prediction(), description="Predictions, and the measurements they need.")
    limits: Limits = Limits()
    acceptance: Acceptance = Field(default=Acceptance(), description="How `snakemake acceptance` judges the machine.")
    requires_acceptance: Seconds | None = Field(
        default=None,
        description="Runs start only on nodes with a passed acceptance that is at most this old; blank: on any.",
    )
    submission: Submission = Submission()
    licence: Text = Field(
        default="",
        description="Licence of the results, an SPDX name such as CC-BY-4.0 or an address; blank: none is stated.",
    )

    @field_validator("benchmarks", "profile_variants", "published", "compare_with", "rank_with", "rounds", "show_first")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError("each name once")
        return names

    @model_validator(mode="after")
    def _staging_rule(self) -> "Study":
        if not self.time_staging and self.rule_set != "hpc_3.0.0":
            raise ValueError(STAGING_ON_CLOCK(rule_set=self.rule_set))
        return self


def named_folder(config_dir: str | None) -> Path | None:
    """Return the folder that a study's `config_dir` names, with its variables replaced; None if it names none."""
    return Path(os.path.expandvars(config_dir)) if config_dir else None


def config_dir_setting(folder: Path) -> str:
    """Return the setting after Snakemake's `--config` that names a configuration folder.

    Values there are YAML, in which quotes let every character stand for itself; Snakemake removes those at an end.
    """
    return f"config_dir= {json.dumps(str(folder), ensure_ascii=False)} "


def configuration_folder(study_file: Path, config_dir: str | None = None, otherwise: Path | None = None) -> Path:
    """Return the folder with a study's machines, benchmarks and run tables.

    Parameters
    ----------
    study_file
        Its folder, or the nearest one above it, has the machines: config/ holds studies in folders of their own.
    config_dir
        The study's key, which takes precedence.
    otherwise
        The folder if none above the file has machines; default: config/ of the checkout, or the file's own folder.
    """
    if (named := named_folder(config_dir)) is not None:
        return named
    clone = source_root()
    last = otherwise or (clone / "config" if clone else study_file.parent)
    return next((folder for folder in study_file.absolute().parents if (folder / "machines").is_dir()), last)
