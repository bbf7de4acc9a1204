"""Runs of a made-up study as a round, together with a published one."""

import shutil

import pandas as pd
import pytest
from unit.mlperf_hpc.analysis.made_runs import made_round, made_run, made_submission
from unit.mlperf_hpc.log_factory import log_text
from unit.mlperf_hpc.submission.result_factory import (
    INSTANCES,
    PRUNED,
    make_own_record,
    timed_like,
    write_group,
    write_run,
    write_runs,
)
from unit.record_factory import (
    make_benchmark,
    make_machine,
    make_mixed_study,
    make_record,
    make_study,
    make_two_suites,
    write_records,
)

from hpcai.config.study import Submission
from hpcai.core.errors import ParseError, RecordError
from hpcai.mlperf_hpc.analysis.own_runs import NO_LOG, NO_RUN, own_round, read_own_groups, read_own_runs
from hpcai.mlperf_hpc.analysis.result_quantities import OTHER_SAMPLES
from hpcai.mlperf_hpc.analysis.round_tables import efficiency_table
from hpcai.mlperf_hpc.analysis.system_families import system_table
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.analysis.weak_scores import weak_table
from hpcai.mlperf_hpc.compliance.tables import verdict_table
from hpcai.records.files import read_part, write_json
from hpcai.records.run import FINISHED
from hpcai.records.weak import GROUP, Extent, WeakGroup

TINY = {"train_samples": 256, "eval_samples": 64, "global_batch_size": 16}


def write_study(folder, records, logged: float | None = None) -> list:
    """Write records and the logs of completed runs, optionally with another quality in the log."""
    paths = write_records(records, folder)
    for path, record in zip(paths, records, strict=True):
        if record.outcome in FINISHED:
            converged = record.outcome == "converged" or logged is not None
            quality = logged or (0.29 if converged else 0.36)
            text = log_text(
                epochs=3,
                epoch_s=10.0 / record.plan.point.ranks + record.plan.repetition,
                eval_s=1.0,
                staging_s=2.0,
                scores=[0.5, 0.4, quality],
                seed=record.plan.seed,
                status="success" if converged else "aborted",
                **TINY,
            )
            (path.parent / "raw").mkdir(exist_ok=True)
            (path.parent / "raw/mllog.txt").write_text(text)
            write_json(timed_like(record, text), path)
    return paths


def test_points_of_a_study_are_submissions(tmp_path) -> None:
    checked = own_round(read_own_runs(write_study(tmp_path, make_study())))
    runs = run_table([checked])
    results = result_table(runs)
    assert checked.choice.rule_set == "3.0.0"
    assert results["submission"].tolist() == [
        "unnamed/testbox_cosmoflow_tiny_fp32_n1x1",
        "unnamed/testbox_cosmoflow_tiny_fp32_n1x2",
    ]
    assert set(runs["method"]) == {"measured"}
    assert set(runs["origin"]) == {"default"}
    assert results["units"].tolist() == [1, 2]
    assert results["kept"].tolist() == [2, 2]
    assert results["epochs"].tolist() == [3, 3]
    assert results["run_s"].tolist() == pytest.approx([2 + 3 * 12.5 + 1, 2 + 3 * 7.5 + 1])
    assert runs["source"].iloc[0] == "runs/cosmoflow_tiny/fp32/n1x1/r1/raw/mllog.txt"


def test_own_target_is_not_the_official_one(tmp_path) -> None:
    results = result_table(run_table([own_round(read_own_runs(write_study(tmp_path, make_study())))]))
    assert results["quality_target"].tolist() == [0.3, 0.3]
    assert results["good_by_target"].tolist() == [4, 4]
    assert results["time_to_train_s"].isna().all()


def test_small_data_make_no_official_score_even_at_the_official_target(tmp_path) -> None:
    benchmark = make_benchmark(target={"value": 0.124, "note": "the official value on other data"})
    records = [make_record("not_converged", benchmark=benchmark, repetition=number) for number in range(1, 11)]
    row = result_table(run_table([own_round(read_own_runs(write_study(tmp_path, records, 0.12)))])).iloc[0]
    assert (row["quality_target"], row["good_by_target"]) == (0.124, 10)
    assert pd.isna(row["time_to_train_s"])
    assert OTHER_SAMPLES(found=64, needed=65536) in row["reason"]


def test_runs_without_a_log_are_listed_and_failures_count(tmp_path) -> None:
    checked = own_round(read_own_runs(write_study(tmp_path, make_mixed_study())))
    runs = run_table([checked])
    lost = [repair for repair in checked.round.repairs if repair.kind == "run_without_log"]
    assert {repair.source for repair in lost} == {
        f"runs/cosmoflow_tiny/fp32/n1x2/r{number}/raw/mllog.txt" for number in (4, 5)
    }
    second = runs[runs["units"] == 2]
    assert second["claim"].tolist() == ["success", "aborted", "aborted", "incomplete", "incomplete"]
    assert "4 of 5 runs claim no success" in result_table(runs)["reason"].iloc[1]


def test_runs_of_another_suite_are_left_out(tmp_path) -> None:
    own = read_own_runs(write_study(tmp_path, make_two_suites()))
    assert {run.record.plan.benchmark.suite for run in own} == {"mlperf_hpc"}


def test_ranks_are_accelerators_where_the_machine_has_them(tmp_path) -> None:
    machine = make_machine(
        nodes=2, ranks_per_node=4, accelerators_per_node=4, device={"kind": "gpu", "model": "V100"}, name="gpus"
    )
    plan = {"machine": machine, "nodes": 2, "ranks_per_node": 4}
    checked = own_round(read_own_runs(write_study(tmp_path, [make_record(**plan)])))
    row = run_table([checked]).iloc[0]
    assert (row["units"], row["unit"], row["accelerators"]) == (8, "accelerator", 8)
    assert pd.isna(row["processors"])
    assert [repair.kind for repair in checked.round.repairs] == []


def test_shares_of_a_processor_are_listed_as_units(tmp_path) -> None:
    checked = own_round(read_own_runs(write_study(tmp_path, make_study())))
    assert [(repair.kind, repair.place) for repair in checked.round.repairs] == [("rank_as_processor", "testbox")]


def test_organisation_and_division_are_the_studys(tmp_path) -> None:
    record = make_record(submission=Submission(org="Our Lab", division="open"))
    row = result_table(run_table([own_round(read_own_runs(write_study(tmp_path, [record])))])).iloc[0]
    assert (row["org"], row["division"]) == ("Our Lab", "open")
    assert row["label"].startswith("*Our Lab testbox")


def test_own_and_published_runs_side_by_side(tmp_path) -> None:
    own = own_round(read_own_runs(write_study(tmp_path, make_study())))
    published = made_round(made_submission([made_run(number) for number in range(1, 6)]))
    results = result_table(run_table([published, own]))
    assert results["origin"].tolist() == ["v9.9", "default", "default"]
    assert results["label"].tolist()[0] == "v9.9 ORG machine"
    assert set(efficiency_table(results, system_table([published.round, own.round]))["origin"]) == {"default"}


@pytest.mark.parametrize(
    ("other", "what"), [({"study": "second"}, "one study"), ({"rule_set": "hpc_2.0.0"}, "one rule set")]
)
def test_runs_that_do_not_belong_together_are_refused(tmp_path, other, what) -> None:
    records = [make_record(), make_record(repetition=2, **other)]
    with pytest.raises(RecordError, match=f"expected runs of {what}"):
        own_round(read_own_runs(write_study(tmp_path, records)))


def test_study_without_runs_of_the_suite_is_refused() -> None:
    with pytest.raises(RecordError, match=NO_RUN.pattern):
        own_round([])


def test_damaged_log_is_refused_by_name(tmp_path) -> None:
    paths = write_study(tmp_path, [make_record()])
    (paths[0].parent / "raw/mllog.txt").write_text("nothing\n")
    with pytest.raises(ParseError, match=r"raw/mllog\.txt: found no line with"):
        read_own_runs(paths)


def test_a_weak_scaling_group_is_a_weak_submission_of_the_same_study(tmp_path) -> None:
    records = [make_own_record("oc20", number) for number in range(1, 6)]
    paths = [write_run(tmp_path / "runs" / one.run_id, one, log_text("oc20", seed=one.plan.seed)) for one in records]
    folder = write_group(tmp_path)
    checked = own_round(read_own_runs(path / "record.json" for path in paths), read_own_groups([folder / GROUP]))
    weak, strong = sorted(checked.round.submissions, key=lambda one: one.scaling, reverse=True)
    assert (strong.scaling, weak.scaling) == ("strong", "weak")
    assert (len(weak.runs), [run.number for run in weak.pruned]) == (INSTANCES - 1, [PRUNED])
    row = weak_table([checked], {}).iloc[0]
    spans = [run.run for run in weak.runs]
    assert row["time_to_train_all_s"] == (max(one.stop_ms for one in spans) - min(one.start_ms for one in spans)) / 1000
    assert (row["instances"], row["counted_instances"], row["whole_scale"], row["method"]) == (6, 5, 1, "measured")
    assert set(run_table([checked])["scaling"]) == {"strong", "weak", "weak_pruned"}
    assert all((tmp_path / run.source).exists() for run in (*strong.runs, *weak.runs, *weak.pruned))


@pytest.mark.parametrize("content", [None, b"", b"Killed\n"])
def test_a_run_that_died_before_its_first_line_is_listed(tmp_path, content) -> None:
    paths = write_study(tmp_path, [make_record(), make_record(repetition=2, outcome="failed")])
    log = paths[1].parent / "raw/mllog.txt"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    if content is not None:
        log.write_bytes(content)
    checked = own_round(read_own_runs(paths))
    assert [(run.number, run.claim) for run in checked.round.submissions[0].runs] == [(1, "success"), (2, "incomplete")]
    assert "run_without_log" in {repair.kind for repair in checked.round.repairs}


@pytest.mark.parametrize("outcome", ["converged", "failed"])
def test_a_log_that_was_changed_or_lost_since_is_refused(tmp_path, outcome) -> None:
    folder = write_run(tmp_path / "r1", make_record(outcome), log_text("oc20"))
    log = folder / "raw/mllog.txt"
    assert len(read_own_runs([folder / "record.json"])) == 1
    whole = log.read_text()
    log.write_text(whole.replace("time_ms", "time_ns", 1))
    with pytest.raises(ParseError, match=r"mllog\.txt"):
        read_own_runs([folder / "record.json"])
    log.unlink()
    with pytest.raises(ParseError, match=r"mllog\.txt"):
        read_own_runs([folder / "record.json"])


def lose(folder, number: int, **changes) -> None:
    """Replace a run by one that failed before its first line."""
    lost = make_own_record("oc20", number, outcome="failed", **changes)
    shutil.rmtree(folder / "raw", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(lost, folder / "record.json")


def test_a_run_that_died_at_its_launch_is_the_dropped_slowest(tmp_path) -> None:
    """Left out, the fastest and the slowest of the others would be dropped, and the mean would be too fast."""
    write_runs(tmp_path, "oc20", numbers=(1, 2, 3, 4), epochs={1: 24, 2: 25, 3: 26, 4: 40})
    lose(tmp_path / "runs" / make_own_record("oc20", 5).run_id, 5)
    checked = own_round(read_own_runs(sorted((tmp_path / "runs").rglob("record.json"))))
    runs = run_table([checked]).set_index("number")
    assert runs["kept_by_target"].to_dict() == {1: False, 2: True, 3: True, 4: True, 5: False}
    assert NO_LOG.find_in(runs.loc[5, "reason"])
    assert (runs.loc[5, "complies"], pd.isna(runs.loc[5, "run_s"])) == (False, True)
    (row,) = result_table(runs.reset_index()).to_dict("records")
    assert (row["runs"], row["kept"], row["epochs"]) == (5, 3, pytest.approx((25 + 26 + 40) / 3))
    assert row["time_to_train_s"] == pytest.approx(runs.loc[[2, 3, 4], "run_s"].mean())
    assert verdict_table([checked])["key"].tolist().count("log") == 1


def test_an_instance_that_died_at_its_launch_is_one_of_the_instances(tmp_path) -> None:
    folder = write_group(tmp_path)
    lose(folder / f"i{PRUNED}", PRUNED, kind="weak", instances=INSTANCES)
    (row,) = weak_table([own_round([], read_own_groups([folder / GROUP]))], {}).to_dict("records")
    assert (row["instances"], row["counted_instances"]) == (INSTANCES, INSTANCES - 1)


def test_where_no_run_left_a_log_there_is_no_result(tmp_path) -> None:
    lose(tmp_path / "runs" / make_own_record("oc20", 1).run_id, 1)
    checked = own_round(read_own_runs((tmp_path / "runs").rglob("record.json")))
    assert (checked.round.submissions, checked.verdicts) == ((), {})
    assert [repair.kind for repair in checked.round.repairs][:1] == ["run_without_log"]


@pytest.mark.parametrize("nodes", [1, 4, 6])
def test_the_whole_scale_is_all_accelerators_of_a_group_however_they_are_spread(tmp_path, nodes) -> None:
    """Of six on four nodes, 6 // 4 is one per node, but T is 6."""
    machine = make_machine(accelerators_per_node=4, nodes=8, device={"kind": "gpu", "model": "A100"})
    folder = write_group(tmp_path, machine=machine, log={"number_of_nodes": 1, "accelerators_per_node": 1})
    group = read_part(WeakGroup, folder / GROUP)
    extent = Extent(nodes=1, ranks=1, accelerators=1)
    whole = Extent(nodes=nodes, ranks=INSTANCES, accelerators=INSTANCES)
    spread = group.model_copy(update={"instance_extent": extent, "whole_extent": whole})
    write_json(spread, folder / GROUP)
    checked = own_round([], read_own_groups([folder / GROUP]))
    (row,) = weak_table([checked], {}).to_dict("records")
    assert (row["whole_scale"], row["instance_scale"], row["scale_unit"]) == (INSTANCES, 1, "accelerator")
    assert not any(part in row["reason"] for part in ("not possible", "does not hold"))
    (system,) = checked.round.systems
    assert (system.accelerators, system.units, system.nodes) == (INSTANCES, INSTANCES, nodes)
