"""Which runs of a results folder are submitted, and how they are grouped."""

import pytest
from unit.mlperf_hpc.log_factory import log_text
from unit.mlperf_hpc.submission.result_factory import (
    ORG,
    make_own_record,
    write_run,
    write_runs,
)
from unit.record_factory import REASONS, make_image_benchmark, make_provenance, make_record, write_records
from unit.refusals import refused, told

from hpcai.config.study import Submission as Declared
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.stalls import Stalls
from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.metrics.scaling.trials import OUTSIDE
from hpcai.metrics.scores.window import CHOSEN
from hpcai.mlperf_hpc.analysis.own_runs import own_round, read_own_runs
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.submission.checks import NO_LOG, OTHER_IN_LOGS, check_runs
from hpcai.mlperf_hpc.submission.collect import NO_RUN, collect
from hpcai.mlperf_hpc.submission.model import Request, safe_name
from hpcai.mlperf_hpc.submission.run_files import SEVERAL_FILES


@pytest.fixture
def request_of(tmp_path):
    def make(**changes):
        return Request(tmp_path / "results", tmp_path / "out", **changes)

    return make


def test_one_system_for_each_scale_and_variant_and_other_suites_are_skipped(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20")
    write_runs(tmp_path / "results", "oc20", ranks_per_node=2)
    write_runs(tmp_path / "results", "deepcam", variant="mixed")
    images = make_record(benchmark=make_image_benchmark(), time_staging=False)
    write_records([images], tmp_path / "results/runs")
    found = collect(request_of())
    assert [(system.name, [result.benchmark for result in system.results]) for system in found.systems] == [
        ("testbox_n1x1_fp32", ["oc20"]),
        ("testbox_n1x1_mixed", ["deepcam"]),
        ("testbox_n1x2_fp32", ["oc20"]),
    ]
    assert found.skipped == ("images_tiny/fp32/n1x1/r1: of the suite hpc_ai500",)
    assert (found.org, found.folder, found.rule_set) == (ORG, ORG, "3.0.0")


def test_runs_are_chosen_by_benchmark_file_or_folder_and_by_scale(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20")
    write_runs(tmp_path / "results", "deepcam", ranks_per_node=2)
    for asked in ({"benchmarks": ("opencatalyst",)}, {"benchmarks": ("oc20",)}, {"scales": ("n1x1",)}):
        found = collect(request_of(system="My System", **asked))
        assert [system.name for system in found.systems] == ["My_System_n1x1_fp32"]
    with refused(ConfigError, NO_RUN):
        collect(request_of(scales=("n9x9",)))


def test_of_more_runs_the_window_with_the_median_score_in_the_order_of_their_start(request_of, tmp_path):
    # Windows of five of seven runs: with the fast runs 1 and 2, with one of them, with none.
    for number in range(1, 8):
        record = make_own_record("oc20", number)
        log = log_text("oc20", seed=number, epochs=5, epoch_s=[40.0, 60.0][number > 2] + number)
        write_run(tmp_path / "results/runs" / record.run_id, record, log)
    (result,) = collect(request_of()).systems[0].results
    assert [run.number for run in result.runs] == [2, 3, 4, 5, 6]
    assert result.measured == 7
    problems = list(check_runs(collect(request_of())))
    assert [problem.severity for problem in problems if "runs 2 to 6 of 7" in problem.message] == ["warning"]


def test_the_tables_of_scales_and_of_rounds_take_the_window_that_is_submitted(request_of, tmp_path):
    for number in range(1, 8):
        record = make_own_record("oc20", number)
        log = log_text("oc20", seed=number, epochs=5, epoch_s=[40.0, 60.0][number > 2] + number)
        write_run(tmp_path / "results/runs" / record.run_id, record, log)
    (result,) = collect(request_of()).systems[0].results
    times = sorted(run.record.time_to_train_s for run in result.runs)[1:-1]
    paths = sorted((tmp_path / "results/runs").rglob("record.json"))
    runs = collect_runs(paths)
    (scale,) = summarise_scales(runs).to_dict("records")
    assert scale["time_to_train_score_s"] == pytest.approx(sum(times) / 3)
    assert (scale["n"], scale["n_counted"], scale["rate_n"]) == (7, 5, 3)
    assert scale["valid_for"] == "closed division"
    assert CHOSEN.find_in(scale["verdict"].split("; ")[1])["first"] == "2"
    assert runs.loc[runs["dropped"] == OUTSIDE, "repetition"].tolist() == [1, 7]
    checked = own_round(read_own_runs(paths))
    (row,) = result_table(run_table([checked])).to_dict("records")
    assert row["time_to_train_s"] == pytest.approx(sum(times) / 3)
    assert (row["runs"], row["runs_by_rule"]) == (5, 5)
    left = [repair.source.split("/")[-3] for repair in checked.round.repairs if repair.kind == "run_outside_window"]
    assert left == ["r1", "r7"]


def test_of_runs_with_a_target_of_their_own_the_window_is_that_of_their_records(request_of, tmp_path):
    """By the official target, which none of them reaches, all windows would be equally slow."""
    for number, epoch_s in enumerate([50.0, 90.0, 70.0, 70.0, 70.0, 95.0, 72.0], start=1):
        record = make_own_record("oc20", number)
        log = log_text("oc20", seed=number, epochs=3, epoch_s=epoch_s + number, scores=[0.5, 0.4, 0.29])
        write_run(tmp_path / "results/runs" / record.run_id, record, log)
    (result,) = collect(request_of()).systems[0].results
    paths = sorted((tmp_path / "results/runs").rglob("record.json"))
    (own,) = own_round(read_own_runs(paths)).round.submissions
    runs = collect_runs(paths)
    chosen = [run.number for run in result.runs]
    assert chosen == [run.number for run in own.runs] == [3, 4, 5, 6, 7]
    assert runs.loc[runs["dropped"] != OUTSIDE, "repetition"].tolist() == chosen


def test_a_window_with_two_runs_that_missed_the_target_is_infinitely_slow(request_of, tmp_path):
    for number in range(1, 7):
        outcome = "not_converged" if number in (1, 2) else "converged"
        record = make_own_record("oc20", number, outcome=outcome)
        missed = {"scores": [0.5] * 4, "status": "aborted"} if number in (1, 2) else {}
        write_run(tmp_path / "results/runs" / record.run_id, record, log_text("oc20", seed=number, **missed))
    (result,) = collect(request_of()).systems[0].results
    # Of two windows the slower one, which is no valid result: the whole set is none (MLPerf Training rules, Scoring).
    assert [run.number for run in result.runs] == [1, 2, 3, 4, 5]


def test_a_run_whose_clock_was_stepped_counts_as_failed_and_is_named(request_of, tmp_path):
    """Of two windows of five, the one with both stepped runs is invalid, though its log makes it the fastest."""
    for number in range(1, 7):
        record = make_own_record("oc20", number)
        log = log_text("oc20", seed=number)
        faster = log_text("oc20", seed=number, epoch_s=90.0) if number < 3 else log
        write_run(tmp_path / "results/runs" / record.run_id, record, faster, measured=log)
    submission = collect(request_of())
    (result,) = submission.systems[0].results
    assert [run.number for run in result.runs] == [1, 2, 3, 4, 5]
    problems = list(check_runs(submission))
    named = [problem.message for problem in problems if "by the monotonic clock" in problem.message]
    assert [message.partition(":")[0] for message in named] == [f"runs/opencatalyst/fp32/n1x1/r{n}" for n in (1, 2)]
    assert {problem.severity for problem in problems if problem.message in named} == {"failure"}


def test_a_run_that_holds_a_pause_is_named(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20", numbers=(1, 2, 3, 4))
    whole = make_own_record("oc20", 5)
    stalls = Stalls(count=2, longest_s=20.1, beside_s=0.5)
    paused = whole.model_copy(update={"training": whole.training.model_copy(update={"stalls": stalls})})
    write_run(tmp_path / "results/runs" / whole.run_id, paused, log_text("oc20", seed=5))
    found = [problem for problem in check_runs(collect(request_of())) if "stalled" in problem.message]
    assert [(problem.severity, problem.message.partition(" ")[0]) for problem in found] == [
        ("warning", "runs/opencatalyst/fp32/n1x1/r5")
    ]


def test_a_run_without_a_log_is_a_failure_with_its_outcome(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20", numbers=(1, 2, 3, 4))
    whole = make_own_record("oc20", 5)
    broken = make_record("failed", benchmark=whole.plan.benchmark, repetition=5, submission=whole.plan.submission)
    write_records([broken], tmp_path / "results/runs")
    submission = collect(request_of())
    lost = [problem.message for problem in check_runs(submission) if problem.check == "logs"]
    assert lost == [NO_LOG(run="runs/opencatalyst/fp32/n1x1/r5", outcome="failed", reason=REASONS["failed"])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"submission": Declared(org=ORG, platform="x", division="open", status="onprem")},
            "division: found closed and open",
        ),
        ({"submission": Declared(org="Other", platform="x", status="onprem")}, "name one with --org"),
        ({"rule_set": "hpc_2.0.0"}, "name one with --rule-set"),
    ],
)
def test_runs_that_contradict_each_other_are_refused(request_of, tmp_path, changes, message):
    write_runs(tmp_path / "results", "oc20")
    write_runs(tmp_path / "results", "deepcam", **changes)
    with pytest.raises(ConfigError, match=message):
        collect(request_of())


def test_two_benchmark_files_for_one_result_are_refused(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20")
    write_runs(tmp_path / "results", "oc20", name="oc20_small")
    with refused(ConfigError, SEVERAL_FILES, files="oc20_small and opencatalyst", result="testbox_n1x1_fp32/oc20"):
        collect(request_of())
    assert len(collect(request_of(benchmarks=("oc20_small",))).systems) == 1


def test_a_log_without_a_line_of_mlperf_is_an_error_that_says_what_to_do(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20")
    (tmp_path / "results/runs/opencatalyst/fp32/n1x1/r1/raw/mllog.txt").write_text("nothing\n")
    with pytest.raises(RecordError, match="hpcai discard"):
        collect(request_of())


def test_names_are_safe_for_shells_and_git():
    assert safe_name("Höchst & Söhne / Lab 1") == "H_chst_S_hne_Lab_1"
    assert safe_name("..hidden") == "hidden"
    with pytest.raises(ConfigError, match="no letter"):
        safe_name("...")


def test_words_of_the_logs_that_differ_from_the_tree_are_warnings(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20")
    problems = list(check_runs(collect(request_of(org="Renamed"))))
    (problem,) = [problem for problem in problems if "organisation" in problem.message]
    assert problem.severity == "warning"
    assert told(problem.message, OTHER_IN_LOGS) == {"logged": ORG, "said": "Renamed"}


def test_runs_with_different_software_are_no_result(request_of, tmp_path):
    write_runs(tmp_path / "results", "oc20", numbers=(1, 2, 3, 4))
    other = {"provenance": make_provenance(software={"tensorflow": "2.19.0", "horovod": "0.28.1", "python": "3.11.2"})}
    write_runs(tmp_path / "results", "oc20", numbers=(5,), record=other)
    messages = [problem.message for problem in check_runs(collect(request_of())) if problem.severity == "failure"]
    assert any("tensorflow 2.18.1 and 2.19.0" in message for message in messages)
