"""Weak-scaling groups: counted and pruned instances, and the time to train of the same benchmark."""

import json
import shutil

import pytest
from unit.mlperf_hpc.submission.result_factory import (
    ORG,
    write_group,
    write_runs,
)
from unit.record_factory import make_machine

from hpcai.core.errors import RecordError
from hpcai.mlperf_hpc.submission.checks import UNEVEN_NODES, broken_rules, check_runs
from hpcai.mlperf_hpc.submission.collect import collect
from hpcai.mlperf_hpc.submission.model import Request
from hpcai.mlperf_hpc.submission.system_file import system_fields
from hpcai.mlperf_hpc.submission.write import write_submission
from hpcai.records.files import read_part, read_record, write_json
from hpcai.records.weak import GROUP, Extent, WeakGroup
from hpcai.rules.judge import judge


def test_a_group_is_handed_in_beside_the_time_to_train_and_passes(tmp_path):
    write_runs(tmp_path / "results", "oc20")
    write_group(tmp_path / "results")
    written = write_submission(Request(tmp_path / "results", tmp_path / "out"))
    assert written.package.passes, written.package
    assert {problem.check for problem in written.failures} == {"code"}
    folder = tmp_path / "out" / ORG / "results/testbox_6xn1x1_fp32/weak/oc20"
    assert sorted(path.name for path in folder.iterdir()) == [
        "pruned_results",
        *(f"result_{n}.txt" for n in range(1, 6)),
    ]
    pruned = (folder / "pruned_results/result_1.txt").read_text()
    assert '"status": "aborted"' in pruned
    fields = json.loads((tmp_path / "out" / ORG / "systems/testbox_6xn1x1_fp32.json").read_text())
    assert fields["number_of_nodes"] == "1"
    script = tmp_path / "out" / ORG / "benchmarks/oc20/implementations/testbox_6xn1x1_fp32/run_and_time.sh"
    assert "measure-weak" in script.read_text()


def test_a_group_alone_and_a_pruned_log_that_does_not_comply_are_named(tmp_path):
    write_group(tmp_path / "results")
    problems = write_submission(Request(tmp_path / "results", tmp_path / "out")).problems
    assert any("without a time to train" in problem.message for problem in problems if problem.severity == "failure")
    assert any("pruned log does not comply" in problem.message for problem in problems)


def test_instances_whose_clocks_were_shifted_against_each_other_are_failures(tmp_path):
    folder = write_group(tmp_path / "results")
    group = read_part(WeakGroup, folder / GROUP)
    measured_s = group.time_to_train_all_monotonic_s
    write_json(group.model_copy(update={"time_to_train_all_monotonic_s": measured_s + 60}), folder / GROUP)
    problems = list(check_runs(collect(Request(tmp_path / "results", tmp_path / "out"))))
    named = [problem for problem in problems if "last run_stop" in problem.message]
    assert [problem.severity for problem in named] == ["failure"] * group.instances


def test_a_group_that_lacks_an_instance_is_refused(tmp_path):
    folder = write_group(tmp_path / "results")
    shutil.rmtree(folder / "i2")
    with pytest.raises(RecordError, match=r"i2/record\.json: no such file"):
        write_submission(Request(tmp_path / "results", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_instances_judged_by_the_rules_are_not_taken_for_profiled_runs(tmp_path):
    folder = write_group(tmp_path / "results")
    for path in folder.glob("i*/record.json"):
        record = read_record(path)
        write_json(record.model_copy(update={"verdicts": judge(record.plan, record.facts)}), path)
    ((result,),) = [system.results for system in collect(Request(tmp_path / "results", tmp_path / "out")).systems]
    assert all(run.record.verdicts for run in (*result.runs, *result.pruned))
    assert "timed" not in broken_rules(result)


@pytest.mark.parametrize(("nodes", "told"), [(1, "6"), (6, "1"), (4, "2")])
def test_a_system_file_counts_the_accelerators_that_a_group_used(tmp_path, nodes, told):
    device = {"kind": "gpu", "model": "A100"}
    machine = make_machine(nodes=8, ranks_per_node=8, accelerators_per_node=8, device=device)
    folder = write_group(tmp_path / "results", machine=machine)
    group = read_part(WeakGroup, folder / GROUP)
    instance, whole = Extent(nodes=1, ranks=1, accelerators=1), Extent(nodes=nodes, ranks=6, accelerators=6)
    write_json(group.model_copy(update={"instance_extent": instance, "whole_extent": whole}), folder / GROUP)
    submission = collect(Request(tmp_path / "results", tmp_path / "out"))
    (system,) = submission.systems
    fields = system_fields(submission, system)
    assert (fields["number_of_nodes"], fields["accelerators_per_node"]) == (str(nodes), told)
    uneven = [problem for problem in check_runs(submission) if UNEVEN_NODES.find_in(problem.message)]
    assert [problem.severity for problem in uneven] == (["failure"] if nodes == 4 else [])
