import math

import pytest
from unit.mlperf_hpc.analysis.made_runs import made_run

from hpcai.mlperf_hpc.analysis.targets import OWN_TARGET, QUALITY, target_of
from hpcai.mlperf_hpc.benchmarks import WORKLOAD_OF
from hpcai.rules.table import rules_of


def test_targets_are_those_of_the_rules() -> None:
    assert {name: tuple(quality) for name, quality in QUALITY.items()} == {
        "cosmoflow": ("eval_error", 0.124, False, 10, 65536),
        "deepcam": ("eval_accuracy", 0.82, True, 5, 15158),
        "oc20": ("eval_error", 0.036, False, 5, 999866),
        "openfold": ("eval_accuracy", 0.8, True, 10, None),
    }


@pytest.mark.parametrize(("benchmark", "workload"), list(WORKLOAD_OF.items()))
def test_package_and_our_table_of_rules_agree(benchmark, workload) -> None:
    table = rules_of("mlperf_hpc")
    stated = next(rule for rule in table.rules if rule.id == f"{workload}_target").settings["target.value"]
    assert QUALITY[benchmark].target == stated.equals
    assert QUALITY[benchmark].runs_by_rule == table.results.runs[workload]


def test_target_is_the_official_one_unless_the_run_has_its_own() -> None:
    assert target_of(made_run(), "cosmoflow") == 0.124
    assert target_of(made_run(settings={OWN_TARGET: 0.3}), "cosmoflow") == 0.3
    assert math.isnan(target_of(made_run(), "no_such"))


def test_best_quality_leaves_out_what_is_no_number() -> None:
    assert QUALITY["cosmoflow"].best_of([0.3, math.nan, 0.2]) == 0.2
    assert QUALITY["deepcam"].best_of([0.3, math.nan, 0.2]) == 0.3
    assert math.isnan(QUALITY["deepcam"].best_of([math.nan]))
