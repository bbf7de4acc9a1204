"""Labels and verdicts of results: evidence against them in the records, and the number of runs the rules require."""

import pytest
from unit.record_factory import make_image_benchmark, make_provenance, make_record
from unit.rules.rule_plans import official_plan

from hpcai.metrics.scores.validity import (
    NOT_VALID,
    VALID,
    RunCounts,
    common_levels,
    counted_runs,
    invalid_reasons,
    judge_runs,
    judged_verdict,
    label_result,
    result_flags,
    valid_for,
)
from hpcai.rules.table import rules_of

MLPERF = rules_of("mlperf_hpc").results
AI500 = rules_of("hpc_ai500").results


def official_record(name, outcome="failed", **facts):
    """A record whose settings are the official ones; failed, because its made-up training has a small model."""
    plan = official_plan(name)
    fields = {field: getattr(plan, field) for field in ("benchmark", "seeds", "time_staging")}
    return make_record(
        outcome,
        record={"data_source": "downloaded", "provenance": make_provenance(page_cache="dropped"), **facts},
        seed=None,
        **fields,
    )


def test_result_on_generated_data_is_labelled():
    label = label_result("mlperf_hpc", invalid_reasons(make_record()))
    assert label.startswith(NOT_VALID(suite="MLPerf HPC", reasons="generated data, 256"))
    assert "524,288" in label
    assert "target 0.3 instead of 0.124" in label
    assert "123,456 instead of 8,907,556" in label
    other = make_record(benchmark=make_image_benchmark(), time_staging=False)
    label = label_result("hpc_ai500", invalid_reasons(other))
    assert label.startswith(NOT_VALID(suite="HPC AI500 V2.0", reasons="generated data"))
    assert "source code" not in label  # the free level does not ask for the committee's


@pytest.mark.parametrize("name", ["cosmoflow", "image_classification"])
def test_official_settings_leave_no_reason(name):
    record = official_record(name)
    assert invalid_reasons(record) == ()
    # The run itself failed: that is no reason against the others, but it is no valid run.
    assert valid_for(record) == "none"
    suite = record.plan.benchmark.suite
    assert label_result(suite, ()) == VALID(suite=rules_of(suite).title)


def test_data_found_on_the_machine_are_flagged():
    assert result_flags(official_record("cosmoflow")) == ()
    found = official_record("cosmoflow", data_source="existing")
    assert result_flags(found) == tuple(flag.sentence for flag in judged_verdict(found).flags)
    assert judged_verdict(found).flags[0].rule == "unverified_data"


def test_label_goes_by_the_declared_division_and_by_the_best_level():
    record = make_record()
    assert judged_verdict(record).level == "closed"
    submission = record.plan.submission.model_copy(update={"division": "open"})
    opened = make_record(submission=submission)
    assert judged_verdict(opened).level == "open"
    assert not any("seeds" in reason for reason in invalid_reasons(opened))
    assert any("seeds" in reason for reason in invalid_reasons(record))
    assert judged_verdict(official_record("image_classification")).level == "free"


def test_a_run_that_was_never_judged_says_so():
    record = make_record(record={"verdicts": ()})
    assert valid_for(record) == "not judged"
    assert label_result("mlperf_hpc", invalid_reasons(record)).endswith("never judged by the rules")
    assert result_flags(record) == ()


@pytest.mark.parametrize(
    ("n_ok", "n", "words"),
    [
        (0, 4, "no valid result: none of 4 runs converged"),
        (2, 4, "no valid result: 2 of 4 runs failed to converge, at most one may be dropped"),
        (1, 2, "no valid result: 1 of 2 runs failed to converge, too few to drop one"),
        (9, 10, "9 of 10 runs converged; the failed one is dropped as the slowest"),
        (4, 4, "all 4 runs converged; too few runs (4 of 10 that the rules require)"),
        (1, 1, "the only run converged; too few runs (1 of 10"),
    ],
)
def test_verdict_on_runs(n_ok, n, words):
    assert judge_runs(RunCounts(n_ok, 0, n), MLPERF, 10).startswith(words)


@pytest.mark.parametrize(
    ("converged", "missed", "total", "words"),
    [
        (0, 0, 2, "no valid result: none of 2 trials completed training; too few trials (0 of 10"),
        (7, 3, 10, "10 of 10 trials completed training, 7 reached the target"),
        (
            9,
            0,
            10,
            "9 of 10 trials completed training, 9 reached the target; the 1 that failed do not count",
        ),
        (12, 0, 12, "12 of 12 trials completed training, 12 reached the target"),
    ],
)
def test_verdict_on_trials(converged, missed, total, words):
    counts = RunCounts(converged, missed, total)
    assert judge_runs(counts, AI500, 10).startswith(words)
    assert counted_runs(counts, AI500) == converged + missed
    assert "more trials" not in judge_runs(counts, AI500, 10)


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        ([], "none"),
        (["none", "free level"], "none"),
        (["closed division, open division", "open division"], "open division"),
    ],
)
def test_levels_that_all_runs_share(cells, levels):
    assert common_levels(cells) == levels
