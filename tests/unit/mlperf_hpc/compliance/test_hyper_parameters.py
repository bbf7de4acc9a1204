"""Logged settings against the tables of the rules: warnings with their section."""

import pytest
from unit.mlperf_hpc.log_factory import log_text

from hpcai.mlperf_hpc.benchmarks import WORKLOAD_OF
from hpcai.mlperf_hpc.compliance.hyper_parameters import PATHS, check_settings, read_settings
from hpcai.parsers.mllog import parse_mllog
from hpcai.rules.table import rules_of


def warnings(benchmark, division="closed", checked=frozenset(), **settings):
    text = log_text(benchmark, **settings)
    found = check_settings(
        read_settings(parse_mllog(text.encode(), "")),
        source="result_1.txt",
        benchmark=benchmark,
        division=division,
        checked=checked,
    )
    assert all(finding.severity == "warning" for finding in found)
    return {finding.key: finding for finding in found}


@pytest.mark.parametrize("benchmark", WORKLOAD_OF)
def test_the_reference_settings_are_allowed(benchmark):
    assert warnings(benchmark) == {}


def test_every_path_stands_in_the_table():
    for benchmark, paths in PATHS.items():
        rules = rules_of("mlperf_hpc").rules_for(WORKLOAD_OF[benchmark], "closed")
        known = {path for rule in rules for path in rule.settings}
        assert set(paths.values()) <= known, benchmark


@pytest.mark.parametrize(
    ("benchmark", "key", "value"),
    [
        ("cosmoflow", "sgd_opt_momentum", 0.8),
        ("cosmoflow", "opt_learning_rate_decay_factor", 1.5),
        ("cosmoflow", "opt_learning_rate_decay_factor", [0.5, 0]),
        ("cosmoflow", "opt_learning_rate_decay_boundary_epochs", [0, 3]),
        ("cosmoflow", "opt_weight_decay", -1),
        ("cosmoflow", "train_samples", 262144),
        ("deepcam", "opt_weight_decay", -0.1),
        ("deepcam", "scheduler_decay_rate", 2),
        ("oc20", "opt_learning_rate_warmup_factor", 2),
        ("oc20", "opt_learning_rate_decay_factor", "x"),
        ("oc20", "opt_weight_decay", 0.0),
        ("oc20", "eval_samples", 1000),
    ],
)
def test_what_the_closed_table_does_not_allow(benchmark, key, value):
    found = warnings(benchmark, **{key: value})
    assert set(found) == {key}
    assert found[key].line is not None
    assert "MLPerf" in found[key].rule or "reference" in found[key].rule


def test_open_is_free_but_for_the_validation_data():
    assert warnings("cosmoflow", "open", sgd_opt_momentum=0.5, opt_name="LAMB", train_samples=5) == {}
    assert set(warnings("cosmoflow", "open", eval_samples=5)) == {"eval_samples"}


def test_a_scalar_is_a_list_of_one():
    assert warnings("cosmoflow", opt_learning_rate_decay_factor=0.25) == {}


def test_what_the_package_found_is_not_said_twice():
    assert warnings("oc20", opt_name="sgd", checked=frozenset({"opt_name"})) == {}


def test_rules_of_another_schedule_are_passed_over():
    assert warnings("deepcam", scheduler_type="cosine_annealing", scheduler_decay_rate=3) == {}


def test_unknown_benchmarks_and_divisions_are_left_to_the_package():
    assert warnings("openfold", opt_name="x") == {}
    assert warnings("cosmoflow", "", opt_name="x") == {}
