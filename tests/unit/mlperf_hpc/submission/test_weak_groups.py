"""Weak-scaling groups: instances that count, pruned ones apart, beside the time to train of the same benchmark."""

import json
import shutil

import pytest
from unit.mlperf_hpc.log_factory import log_text
from unit.mlperf_hpc.submission.result_factory import ORG, make_own_record, write_run, write_runs

from hpcai.errors import RecordError
from hpcai.mlperf_hpc.submission.model import Request
from hpcai.mlperf_hpc.submission.write import write_submission
from hpcai.records import write_json
from hpcai.weak_records import GROUP, Extent, Instance, NodeShare, WeakGroup

INSTANCES = 6
PRUNED = 4


def write_group(results, benchmark="oc20"):
    """A group of six, of which the fourth has not converged; all on one node."""
    folder = results / "weak/opencatalyst/fp32/n1x1"
    instances = []
    for number in range(1, INSTANCES + 1):
        record = make_own_record(benchmark, number, kind="weak", instances=INSTANCES)
        missed = number == PRUNED
        log = {"scores": [0.5] * 26, "status": "aborted"} if missed else {}
        write_run(folder / f"i{number}", record, log_text(benchmark, org=ORG, seed=number, epochs=26, **log))
        instances.append(
            Instance(
                number=number, run_id=record.run_id, attempt=record.attempt, seed=number, outcome=record.outcome,
                reason="", pruned="not_converged" if missed else None, pruned_reason="it missed" if missed else "",
                shares=(NodeShare(host="node0", cores=(number,)),), run_start_monotonic_s=0, run_stop_monotonic_s=1,
            )
        )  # fmt: skip
    extent = Extent(nodes=1, ranks=1, accelerators=0)
    group = WeakGroup(
        group="opencatalyst/fp32/n1x1", benchmark="opencatalyst", variant="fp32", scale="n1x1", attempt="a",
        started_utc="2026-01-01T00:00:00Z", instances=INSTANCES, counted=INSTANCES - 1, instance_extent=extent,
        whole_extent=extent, time_to_train_all_monotonic_s=1.0, results=tuple(instances),
    )  # fmt: skip
    write_json(group, folder / GROUP)
    return folder


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


def test_a_group_that_lacks_an_instance_is_refused(tmp_path):
    folder = write_group(tmp_path / "results")
    shutil.rmtree(folder / "i2")
    with pytest.raises(RecordError, match=r"i2/record\.json: no such file"):
        write_submission(Request(tmp_path / "results", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
