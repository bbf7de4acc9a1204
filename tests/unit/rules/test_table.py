"""The tables are complete, consistent, and refer to existing settings."""

from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from unit.rules.published_limits import CONDITIONS, PUBLISHED

from hpcai.config.runs import RunPlan
from hpcai.config.workloads import BENCHMARKS
from hpcai.core.errors import ConfigError
from hpcai.rules.judge import describe
from hpcai.rules.requirement import Requirement
from hpcai.rules.table import FOLDER, SUITES, read_rules, rules_of
from hpcai.rules.verdict import RunFacts

TABLES = {suite: rules_of(suite) for suite in SUITES}
PATHS = [
    (workload, path)
    for table in TABLES.values()
    for rule in table.rules
    for workload in rule.workloads or table.results.runs
    for joined in (*rule.settings, *rule.when)
    for path in joined.split(" + ")
]


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Models among the members of an annotation, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType) or hasattr(annotation, "__metadata__"):
        return [model for member in get_args(annotation) for model in models_in(member)]
    return []


def exists(models: list[type[BaseModel]], keys: list[str]) -> bool:
    """Whether any of the models has the setting; of a union, one member is enough."""
    for model in models:
        if keys[0] in model.model_fields:
            annotation: Any = model.model_fields[keys[0]].annotation
            if len(keys) == 1 or exists(models_in(annotation), keys[1:]):
                return True
    return False


@pytest.mark.parametrize(("workload", "path"), sorted(set(PATHS)))
def test_every_path_exists(workload, path):
    root, _, rest = path.partition(".")
    models = {"facts": [RunFacts], "plan": [RunPlan]}
    assert exists(models.get(root, [BENCHMARKS[workload]]), rest.split(".") if root in models else path.split("."))


def test_nine_layers_and_three_levels():
    table = TABLES["hpc_ai500"]
    layers = [name for name, topic in table.topics.items() if topic.title.startswith("Layer")]
    assert [table.topics[name].title[:7] for name in layers] == [f"Layer {number}" for number in range(1, 10)]
    assert list(table.levels) == ["hardware", "system", "free"]
    sign = {"free": "Y", "fixed": "N", "partly": "p"}
    rows = ["".join(sign[freedom] for freedom in table.topics[name].levels.values()) for name in layers]
    # HPC AI500 V2.0, Table 1, line by line.
    assert rows == ["YYY", "YYY", "YYY", "YYY", "NYY", "ppY", "NNY", "ppY", "NNN"]


def test_divisions_of_mlperf():
    assert list(TABLES["mlperf_hpc"].levels) == ["closed", "open"]


def requirements(limits):
    return {path: Requirement.model_validate(required) for path, required in limits.items()}


@pytest.mark.parametrize("suite", SUITES)
def test_the_table_has_the_published_rules_and_no_others(suite):
    assert [rule.id for rule in TABLES[suite].rules if rule.id not in PUBLISHED[suite]] == []
    assert len(TABLES[suite].rules) == len(PUBLISHED[suite])


@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite in SUITES for name in PUBLISHED[suite]])
def test_levels_and_limits_are_those_of_the_published_rules(suite, name):
    rule = next(one for one in TABLES[suite].rules if one.id == name)
    binds, effect, limits = PUBLISHED[suite][name]
    assert (rule.binds, rule.effect) == (binds, effect)
    assert rule.settings == requirements(limits)
    assert rule.when == requirements(CONDITIONS.get(name, {}))
    assert rule.workloads == tuple(workload for workload in BENCHMARKS if name.startswith(workload))


@pytest.mark.parametrize("suite", SUITES)
def test_every_rule_names_its_section(suite):
    table = TABLES[suite]
    for rule in table.rules:
        assert len(rule.sentence) > 20, rule.id
        assert table.title.split()[0] in rule.section or "MLPerf" in rule.section, rule.id
    assert all(topic.sentence and topic.section for topic in table.topics.values())


@pytest.mark.parametrize("suite", SUITES)
def test_every_workload_of_a_suite_has_its_number_of_runs(suite):
    workloads = {name for name, model in BENCHMARKS.items() if model.suite == suite}
    assert set(TABLES[suite].results.runs) == workloads


def test_runs_by_the_rules():
    found = {workload: runs for table in TABLES.values() for workload, runs in table.results.runs.items()}
    assert found == {
        "image_classification": 10,
        "extreme_weather": 5,
        "cosmoflow": 10,
        "deepcam": 5,
        "opencatalyst": 5,
    }


def test_exponents_of_vflops():
    # HPC AI500 V2.0, 5.4.1; MLPerf HPC knows no VFLOPS.
    found = {suite: table.results.exponents for suite, table in TABLES.items()}
    assert found == {"hpc_ai500": {"image_classification": 5, "extreme_weather": 10}, "mlperf_hpc": {}}


@pytest.mark.parametrize("suite", SUITES)
def test_words_for_deviations_can_be_made_and_do_not_hold_our_mark(suite):
    for rule in TABLES[suite].rules:
        for path in rule.settings:
            words = describe(rule, {path: 1})
            assert words
            assert "{" not in words
            assert "; " not in words  # separates the reasons in a cell of a table
        assert "; " not in rule.declared


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["rules"].append(data["rules"][0]), "each id of a rule once"),
        (lambda data: data["rules"][0].update(topic="weather"), "topic weather is none of the topics"),
        (lambda data: data["rules"][0].update(binds=["closed"]), "binds unknown levels"),
        (lambda data: data["rules"][0].update(binds=["free"]), "its topic is free at free"),
        (lambda data: data["rules"][0].update(settings={"a.b": {"equals": 1}}), "settings or declared, not both"),
        (lambda data: data["rules"][0].update(section=""), "at least 1 character"),
        (lambda data: data["rules"][0].update(workloads=["cosmoflow"]), "unknown workloads"),
        (lambda data: data["results"].update(exponents={"cosmoflow": 5}), "exponents: unknown workloads"),
        (lambda data: data["topics"]["framework"]["levels"].pop("free"), "one entry per level"),
        (lambda data: data["topics"]["hardware"]["levels"].update(free="fixed"), "no rule for free"),
        (lambda data: data["rules"][1].update(settings={"a.b": {"equals": 1, "at_least": 1}}), "one of the keys free"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, change, message):
    data = yaml.safe_load((FOLDER / "hpc_ai500.yaml").read_text())
    change(data)
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match=message) as caught:
        read_rules(path)
    assert str(path) in str(caught.value)


def test_a_workload_that_the_table_does_not_know_is_refused() -> None:
    results = rules_of("mlperf_hpc").results
    assert results.runs_of("cosmoflow") == 10
    with pytest.raises(ConfigError, match=r"results\.runs: found no 'toy'"):
        results.runs_of("toy")
