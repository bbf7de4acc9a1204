"""Inputs of the judgement besides the settings, and its output: one verdict per level or division of a run's suite."""

from typing import Literal

from pydantic import Field, model_validator

from hpcai.config.base import Settings
from hpcai.config.benchmark import Suite
from hpcai.config.runs import RunPlan


class RunFacts(Settings):
    """Observed facts of a run; None means unknown, which is not judged."""

    data_source: Literal["generated", "downloaded", "existing"] | None = None
    page_cache: Literal["dropped", "not_permitted", "kept"] | None = None
    parameters: int | None = Field(default=None, description="Trainable parameters of the model that was built.")
    init_s: float | None = Field(default=None, description="Time from init_start to init_stop.")
    outcome: Literal["converged", "not_converged", "diverged", "failed", "timed_out"] | None = None
    epochs: int | None = Field(default=None, description="Epochs that were completed.")
    quality: float | None = Field(default=None, description="Quality of the last evaluation.")

    @classmethod
    def before(cls, plan: RunPlan) -> "RunFacts":
        """Return the facts known before a run is measured: its settings determine the source of the data."""
        sources: dict[str, Literal["generated", "downloaded", "existing"]] = {
            "generate": "generated",
            "download": "downloaded",
            "existing": "existing",
        }
        return cls(data_source=sources[plan.benchmark.data.source])


class Finding(Settings):
    """One rule that a run violates, or that must be disclosed."""

    rule: str = Field(description="Id of the rule in the table of its suite.")
    sentence: str = Field(description="What was found and what the rule requires.")
    section: str = Field(description="Section of the suite's text.")
    counted: bool = Field(
        default=False, description="Such runs are counted when the result is judged; a result may contain some of them."
    )


class Verdict(Settings):
    """Whether a run is valid at one level (HPC AI500) or in one division (MLPerf HPC).

    Facts that no record contains (review by a committee, availability of the hardware) are not judged.
    """

    suite: Suite
    level: str = Field(description="hardware, system or free; closed or open.")
    valid: bool
    deviations: tuple[Finding, ...] = ()
    flags: tuple[Finding, ...] = Field(default=(), description="Permitted, but must be disclosed with the result.")

    @model_validator(mode="after")
    def _valid_without_deviations(self) -> "Verdict":
        if self.valid == bool(self.deviations):
            raise ValueError("a run is valid exactly if nothing deviates")
        return self

    def without(self, rule: str) -> "Verdict":
        """Return the verdict without the deviations from a rule, which is valid if no other deviates."""
        kept = tuple(finding for finding in self.deviations if finding.rule != rule)
        return self.model_copy(update={"deviations": kept, "valid": not kept})
