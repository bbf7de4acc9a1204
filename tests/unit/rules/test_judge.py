"""The judgement: every rule fires where it is broken, and nowhere else."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError
from unit.record_factory import make_official_plan, make_plan
from unit.rules.published_limits import PUBLISHED
from unit.rules.rule_plans import broken, forbidden_values, official_facts, official_plan

from hpcai.config.workloads import BENCHMARKS
from hpcai.rules.judge import judge
from hpcai.rules.table import SUITES, rules_of
from hpcai.rules.verdict import Finding, RunFacts, Verdict

FILES = Path(__file__).parents[3] / "config" / "benchmarks"
OFFICIAL = sorted(
    path.stem for path in FILES.glob("*.yaml") if yaml.safe_load(path.read_text())["data"]["source"] != "generate"
)
DECLARED = {
    "hardware": {"source_code", "extreme_weather_reference"},
    "system": {"equivalence_check", "extreme_weather_reference"},
    "free": set(),
    "closed": set(),
    "open": set(),
}
"""Rules that this library declares not to check, because only the committee has the facts."""
FLAGGED = {"image_classification": {"image_classification_boxes"}}
"""Flags of runs that keep all rules: verified data are downloaded, and downloaded images have no boxes."""
OPEN_CHOICES = {"cosmoflow_augmentation", "cosmoflow_decay", "gradient_skipping"}
"""Rules of the closed division that files for the open division break."""
CASES = [
    (workload, rule, path, value)
    for suite in SUITES
    for rule in rules_of(suite).rules
    for workload in rule.workloads or rules_of(suite).results.runs
    for path, required in rule.settings.items()
    for value in forbidden_values(required)
    if not rule.when
]
CONDITIONAL = {
    "staging_on_the_clock": ("cosmoflow", [{"plan.rule_set": "hpc_2.0.0", "plan.time_staging": False}]),
    "optimizer_as_policy": ("image_classification", [{"recipe.optimizer": "lars"}, {"recipe.optimizer": "lamb"}]),
    "deepcam_multistep": ("deepcam", [{"recipe.schedule.decay_rate": 1.001}]),
    "cosmoflow_quality": ("cosmoflow", [{"facts.quality": 0.1241}, {"facts.quality": 0.0}]),
    "deepcam_quality": ("deepcam", [{"facts.quality": 0.8199}, {"facts.quality": 1.001}]),
    "opencatalyst_quality": ("opencatalyst", [{"facts.quality": 0.0361}, {"facts.quality": 0.0}]),
}
"""Changes just beyond the limits of rules that hold on a condition."""


def rules_found(verdicts, level):
    verdict = next(verdict for verdict in verdicts if verdict.level == level)
    return {finding.rule for finding in (*verdict.deviations, *verdict.flags)}


@pytest.mark.parametrize("workload", BENCHMARKS)
def test_a_run_that_keeps_all_rules_breaks_none(workload):
    for verdict in judge(official_plan(workload), official_facts(workload)):
        assert {finding.rule for finding in verdict.deviations} <= DECLARED[verdict.level]
        assert {finding.rule for finding in verdict.flags} == FLAGGED.get(workload, set())


@pytest.mark.parametrize(
    ("workload", "rule", "path", "value"), CASES, ids=[f"{case[0]}-{case[1].id}-{case[2]}-{case[3]}" for case in CASES]
)
def test_every_rule_fires_where_it_binds_and_only_there(workload, rule, path, value):
    plan, facts = broken(path, value, official_plan(workload), official_facts(workload))
    verdicts = judge(plan, facts)
    for verdict in verdicts:
        assert (rule.id in rules_found(verdicts, verdict.level)) == (verdict.level in rule.binds), verdict
        if verdict.level in rule.binds and rule.effect == "deviation":
            assert not verdict.valid


@pytest.mark.parametrize(
    ("rule", "changes"), [(rule, changes) for rule, (_, probes) in CONDITIONAL.items() for changes in probes], ids=str
)
def test_rules_with_a_condition(rule, changes):
    workload = CONDITIONAL[rule][0]
    plan, facts = official_plan(workload), official_facts(workload)
    for path, value in changes.items():
        plan, facts = broken(path, value, plan, facts)
    verdicts = judge(plan, facts)
    binds, _, _ = PUBLISHED[plan.benchmark.suite][rule]
    assert {verdict.level for verdict in verdicts if rule in rules_found(verdicts, verdict.level)} == set(binds)


@pytest.mark.parametrize(
    ("workload", "path", "value", "levels"),
    [
        ("cosmoflow", "facts.init_s", 1800.0, set()),
        ("cosmoflow", "facts.init_s", 1800.1, {"closed"}),
        ("deepcam", "facts.init_s", 14_400.0, {"closed"}),
        ("deepcam", "facts.init_s", 14_400.1, {"closed", "open"}),
        ("deepcam", "recipe.warmup_factor", 1.0, set()),
        ("deepcam", "recipe.warmup_factor", 0.999, {"closed"}),
        ("deepcam", "recipe.schedule.decay_rate", 1.0, set()),
        ("deepcam", "facts.quality", 1.0, set()),
        ("cosmoflow", "target.value", 0.1241, {"closed", "open"}),
        ("deepcam", "target.value", 0.8199, {"closed", "open"}),
        ("opencatalyst", "target.value", 0.0361, {"closed", "open"}),
        ("extreme_weather", "facts.parameters", 40_499_999, {"hardware", "system"}),
        ("extreme_weather", "facts.parameters", 41_500_000, {"hardware", "system"}),
    ],
)
def test_limits_lie_where_the_rules_have_them(workload, path, value, levels):
    plan, facts = broken(path, value, official_plan(workload), official_facts(workload))
    verdicts = judge(plan, facts)
    found = {verdict.level: {one.rule for one in verdict.deviations} - DECLARED[verdict.level] for verdict in verdicts}
    assert {level for level, rules in found.items() if rules} == levels


def test_conditions_leave_other_runs_alone():
    plan = official_plan("cosmoflow", rule_set="hpc_3.0.0", time_staging=False)
    assert judge(plan, official_facts("cosmoflow"))[0].valid
    missed = official_facts("cosmoflow").model_copy(update={"outcome": "not_converged", "quality": 0.2})
    assert "cosmoflow_quality" not in rules_found(judge(official_plan("cosmoflow"), missed), "closed")


def test_every_rule_with_a_condition_is_tested():
    conditional = {rule.id for suite in SUITES for rule in rules_of(suite).rules if rule.when}
    # Settings that are no cosine annealing cannot break its rule, and its model refuses what the rule forbids.
    assert conditional - {"deepcam_cosine_annealing"} == set(CONDITIONAL)


def test_cosine_annealing_is_judged_by_its_own_rule():
    benchmark = official_plan("deepcam").benchmark
    schedule = {"type": "cosine_annealing", "t_max": 9000}
    changed = benchmark.model_validate(
        {**benchmark.model_dump(), "recipe": {**benchmark.recipe.model_dump(), "schedule": schedule}}
    )
    assert judge(make_plan(benchmark=changed, seeds="entropy"), official_facts("deepcam"))[0].valid


def test_nothing_is_judged_that_is_not_known():
    for workload in BENCHMARKS:
        for verdict in judge(official_plan(workload), RunFacts()):
            assert {finding.rule for finding in verdict.deviations} <= DECLARED[verdict.level]


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_benchmark_files_deviate_only_by_what_cannot_be_known(name):
    plan = make_official_plan(name)
    assert plan.benchmark.target.official
    chosen = OPEN_CHOICES if name.endswith("_open") else set()
    for verdict in judge(plan, RunFacts.before(plan)):
        found = {finding.rule for finding in verdict.deviations}
        assert found - DECLARED[verdict.level] == (chosen if verdict.level == "closed" else set())


def test_stand_ins_are_no_valid_results():
    for path in FILES.glob("*.yaml"):
        if path.stem not in OFFICIAL:
            plan = make_official_plan(path.stem)
            assert not any(verdict.valid for verdict in judge(plan, RunFacts.before(plan))), path


def test_precision_compression_and_fusion_are_permitted_in_both_suites():
    point = {"precision": "bf16", "compression": "fp16", "fusion_bytes": 1e6, "cycle_time_s": 0.01}
    for workload in ("image_classification", "cosmoflow"):
        benchmark = official_plan(workload).benchmark
        mlperf = benchmark.suite == "mlperf_hpc"
        plan = make_plan(benchmark=benchmark, settings_of_point=point, seeds="entropy", time_staging=mlperf)
        for verdict in judge(plan, official_facts(workload)):
            assert {finding.rule for finding in verdict.deviations} <= DECLARED[verdict.level]


def test_ranks_that_share_samples_are_permitted_in_mlperf_hpc():
    benchmark = official_plan("cosmoflow").benchmark
    point = {"spatial_parts": 2}
    plan = make_plan(benchmark=benchmark, ranks_per_node=2, settings_of_point=point, seeds="entropy", time_staging=True)
    for verdict in judge(plan, official_facts("cosmoflow")):
        assert {finding.rule for finding in verdict.deviations} <= DECLARED[verdict.level]


def test_batch_norm_over_ranks_is_another_algorithm_only_in_hpc_ai500():
    for workload, expected in (("image_classification", True), ("deepcam", False)):
        plan, facts = broken("plan.point.batchnorm_group", 2, official_plan(workload), official_facts(workload))
        deviations = {finding.rule for verdict in judge(plan, facts) for finding in verdict.deviations}
        assert ("batch_norm" in deviations) == expected


def test_sentences_say_what_was_found_and_what_is_expected():
    plan, facts = broken("recipe.momentum", 0.8, official_plan("cosmoflow"), official_facts("cosmoflow"))
    closed, opened = judge(plan, facts)
    assert [finding.sentence for finding in closed.deviations] == ["recipe.momentum 0.8 instead of 0.9"]
    assert closed.deviations[0].section.startswith("MLPerf HPC rules 3.0, 6.1 ")
    assert opened.valid


def test_a_verdict_is_valid_exactly_without_deviations():
    finding = Finding(rule="x", sentence="y", section="z")
    with pytest.raises(ValidationError, match="exactly if nothing deviates"):
        Verdict(suite="mlperf_hpc", level="closed", valid=True, deviations=(finding,))
    with pytest.raises(ValidationError, match="exactly if nothing deviates"):
        Verdict(suite="mlperf_hpc", level="closed", valid=False)


@pytest.mark.parametrize(
    "workload", [name for name in BENCHMARKS if official_plan(name).benchmark.suite == "mlperf_hpc"]
)
def test_an_instance_of_a_weak_scaling_group_is_a_whole_training(workload):
    for kind, timed in (({"kind": "weak", "instances": 5}, True), ({"kind": "profiled", "max_steps": 5}, False)):
        for verdict in judge(official_plan(workload, **kind), official_facts(workload)):
            assert ("timed" not in {finding.rule for finding in verdict.deviations}) == timed
            assert verdict.valid == timed


@pytest.mark.parametrize(("source", "is_flagged"), [("downloaded", True), ("existing", False), ("generated", False)])
def test_downloaded_images_are_flagged_at_every_level_because_they_have_no_boxes(source, is_flagged):
    facts = official_facts("image_classification").model_copy(update={"data_source": source})
    for verdict in judge(official_plan("image_classification"), facts):
        assert ("image_classification_boxes" in {flag.rule for flag in verdict.flags}) == is_flagged
    assert "image_classification_boxes" not in rules_found(judge(official_plan("extreme_weather"), facts), "free")
