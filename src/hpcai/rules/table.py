"""The tables of rules: the content of ``hpc_ai500.yaml`` and ``mlperf_hpc.yaml``, checked when read."""

from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, model_validator

from hpcai.config.base import Count, Name, Settings, Text
from hpcai.config.benchmark import Suite
from hpcai.config.reading import Problems, read_yaml, validate
from hpcai.core.errors import ConfigError
from hpcai.rules.requirement import Requirement

FOLDER = Path(__file__).parent
SUITES: tuple[Suite, ...] = get_args(Suite)


class Topic(Settings):
    """A layer (HPC AI500 V2.0) or a subject (MLPerf HPC), and its freedom at each level."""

    title: Text
    sentence: Text = Field(min_length=1)
    section: Text = Field(min_length=1)
    levels: dict[Name, Literal["free", "partly", "fixed"]]


class Rule(Settings):
    """One rule, and how to check compliance of a run.

    It is judged by `settings`, or `declared` as not met by this library. With neither it is only stated, because no
    record can decide it. Paths of `settings` and `when` begin with ``plan.`` (the run's plan), ``facts.`` (observed
    facts), or a section of the benchmark file, such as ``recipe.momentum``.
    """

    id: Name
    topic: Name
    binds: tuple[Name, ...] = Field(min_length=1, description="Levels or divisions to which the rule applies.")
    workloads: tuple[Name, ...] = Field(default=(), description="Empty: all of the suite.")
    sentence: Text = Field(min_length=1)
    section: Text = Field(min_length=1)
    when: dict[str, Requirement] = Field(default={}, description="The rule concerns runs that fulfil all of these.")
    settings: dict[str, Requirement] = Field(
        default={}, description="Settings or observations that are checked, and their required values."
    )
    deviation: Text = Field(
        default="{each}", description="Words for a deviation: {found}, {required} of the first, {each} of all settings."
    )
    declared: Text = Field(default="", description="Why no run of this library meets the rule.")
    effect: Literal["deviation", "flag"] = Field(
        default="deviation", description="flag: permitted, but must be disclosed with the result."
    )
    counted: bool = Field(default=False, description="The rules count such runs; a result may contain some.")

    @model_validator(mode="after")
    def _is_judged_in_one_way(self) -> "Rule":
        if self.settings and self.declared:
            raise ValueError(f"rule {self.id}: settings or declared, not both")
        return self


class ResultRules(Settings):
    """Number of runs of a result, and the values that it reports."""

    runs: dict[Name, Count] = Field(description="Runs of a result, by workload.")
    exponents: dict[Name, Count] = Field(
        default={}, description="n of VFLOPS = FLOPS x (quality / target)^n, by workload; none: VFLOPS is not defined."
    )
    more: Literal["window", "welcome"] = Field(description="More runs: a window of them counts, or all do.")
    counts: Literal["all", "finished"] = Field(
        description="Which runs count: all, of which few may have failed; or those that completed training."
    )
    failures_allowed: int = Field(ge=0, description="Runs that may miss the target and are dropped as slowest.")
    word: Literal["run", "trial"]
    score: Text
    section: Text = Field(min_length=1)

    def runs_of(self, workload: str) -> int:
        """Return the number of runs of a result.

        Raises
        ------
        ConfigError
            If the table lacks the workload.
        """
        if workload not in self.runs:
            raise ConfigError(
                f"results.runs: found no {workload!r} in the suite's table of rules ({', '.join(self.runs)}), "
                f"expected its number of runs; add it to the YAML file in {FOLDER}"
            )
        return self.runs[workload]


class SuiteRules(Settings):
    """All rules of one suite."""

    suite: Suite
    title: Text
    edition: Text = Field(description="Texts from which the rules were taken.")
    levels: dict[Name, Text] = Field(description="Levels or divisions, the strictest first, with their full names.")
    topics: dict[Name, Topic]
    results: ResultRules
    rules: tuple[Rule, ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> "SuiteRules":
        ids = [rule.id for rule in self.rules]
        _require(len(set(ids)) == len(ids), "each id of a rule once")
        _require(self.results.exponents.keys() <= self.results.runs.keys(), "exponents: unknown workloads")
        for name, topic in self.topics.items():
            _require(topic.levels.keys() == self.levels.keys(), f"topic {name}: one entry per level")
        for rule in self.rules:
            _require(rule.topic in self.topics, f"rule {rule.id}: topic {rule.topic} is none of the topics")
            _require(set(rule.binds) <= self.levels.keys(), f"rule {rule.id}: binds unknown levels")
            _require(set(rule.workloads) <= self.results.runs.keys(), f"rule {rule.id}: unknown workloads")
            free = [level for level in rule.binds if self.topics[rule.topic].levels[level] == "free"]
            _require(not free or rule.effect == "flag", f"rule {rule.id}: its topic is free at {', '.join(free)}")
        for name, topic in self.topics.items():
            bound = {level for rule in self.rules if rule.topic == name for level in rule.binds}
            open_ = [level for level, freedom in topic.levels.items() if freedom != "free" and level not in bound]
            _require(not open_, f"topic {name}: no rule for {', '.join(open_)}")
        return self

    def rules_for(self, workload: str, level: str) -> tuple[Rule, ...]:
        """Return the rules that bind a workload at a level, in the table's order."""
        return tuple(
            rule for rule in self.rules if level in rule.binds and (not rule.workloads or workload in rule.workloads)
        )


@cache
def rules_of(suite: Suite) -> SuiteRules:
    """Return the table of a suite.

    Raises
    ------
    ConfigError
        If the library's table is damaged; names every place.
    """
    return read_rules(FOLDER / f"{suite}.yaml")


def read_rules(path: Path) -> SuiteRules:
    """Read and check one table of rules.

    Raises
    ------
    ConfigError
        Lists every error: dotted key, what was found, what is allowed.
    """
    problems = Problems()
    data = read_yaml(path, problems)
    table = None if problems.lines else validate(SuiteRules, data, str(path), problems)
    problems.raise_if_any()
    if table is None:
        raise AssertionError("a table without errors is a table")
    return table


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)
