"""A weak-scaling group: all instances run at the same time on separate resources, and are repeated together."""

import json
import os
import signal
import sys
import threading

import pytest
from unit.measure.fake_launchers import fake
from unit.record_factory import make_plan, make_provenance, make_record
from unit.refusals import refused

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import RunPlan
from hpcai.config.study import Limits
from hpcai.core.disturbance import CoreUse, Quietness, Tolerance
from hpcai.core.errors import ConfigError, LaunchError, RunInterruptedError, RunRefusedError
from hpcai.core.sealed import unseal
from hpcai.data.manifest import Manifest, write_manifest
from hpcai.launchers.registry import LAUNCHERS
from hpcai.measure import attempts, publish, recording, supervise
from hpcai.measure.inputs import Inputs
from hpcai.measure.interruption import FROM_OUTSIDE, INTERRUPTED
from hpcai.measure.weak import OTHER_PLANS, TOO_FEW_CORES, measure_weak
from hpcai.records.files import read_part, read_record, write_json
from hpcai.records.run import Attempt, RankReport
from hpcai.records.weak import GROUP, SAME_PART, InstanceShare, WeakGroup

INSTANCES = 3
RANK = """
import json, pathlib, shutil, sys, time
raw = pathlib.Path(sys.argv[sys.argv.index("--raw") + 1])
own = pathlib.Path(TEMPLATES) / raw.parents[1].name
(raw / "heartbeat").touch()
(own / "is_here").touch()
while len(list(own.parent.glob("*/is_here"))) < EXPECTED:  # only instances that run at the same time get on
    time.sleep(0.01)
if (own / "fails").exists():
    sys.exit("error: the deliberate failure")
shutil.copytree(own, raw, dirs_exist_ok=True)
(raw / "is_here").unlink()
time.sleep(0.3)
"""


def plans_of(count=INSTANCES, **changes):
    """The plans of a group's instances."""
    return [make_plan(kind="weak", instances=count, repetition=k, **changes) for k in range(1, count + 1)]


class Group:
    """A group whose ranks are a small program that writes reports instead of training."""

    def __init__(self, folder, monkeypatch, plans):
        self.folder, self.templates, self.plans = folder / "group", folder / "templates", plans
        what = {"dataset": "tiny", "workload": "cosmoflow", "source": "generated", "edition": "v1"}
        manifest = Manifest(**what, sample_shape=(1,), splits={})
        write_manifest(manifest, folder / "manifest.json")
        origin = make_provenance(data_digest=manifest.digest)
        monkeypatch.setattr(supervise, "collect_provenance", lambda *_: origin)
        paths = tuple(folder / f"plan{plan.repetition}.json" for plan in plans)
        self.inputs = Inputs(paths, folder / "manifest.json", None)
        for plan, path in zip(plans, self.inputs.plans, strict=True):
            write_plan(plan, path)
            self.report(plan, "converged")
        code = RANK.replace("TEMPLATES", repr(str(self.templates))).replace("EXPECTED", str(len(plans)))
        monkeypatch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", code]))
        monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))

    def report(self, plan, outcome, core=None, start_s=0.0):
        """Let an instance end with an outcome, after starting `start_s` later than the first."""
        own = self.templates / f"i{plan.repetition}"
        (own / "ranks").mkdir(parents=True, exist_ok=True)
        record = make_record(outcome, kind="weak", instances=len(self.plans), repetition=plan.repetition)
        rank = record.ranks[0]
        placement = {"hostname": "box", "cores": (plan.repetition if core is None else core,)}
        rank = rank.model_copy(update={"placement": rank.placement.model_copy(update=placement)})
        write_json(rank, own / "ranks/rank0.json")
        training = record.training.model_copy(update={"run_s": 0.2, "epochs": (), "seed": plan.seed})
        epoch = record.epochs[-1].model_copy(update={"epoch": 1, "train_s": 0.1, "evaluation_s": 0.0})
        write_json(training.model_copy(update={"epochs": (epoch,)}), own / "training.json")
        (own / "clocks.json").write_text(json.dumps({"monotonic_s": 50.0, "wall_s": 1000.0}))
        line = {"namespace": "", "time_ms": 1000_000 + round(1000 * start_s), "event_type": "INTERVAL_START"}
        line |= {"key": "run_start", "value": None, "metadata": {}}
        (own / "mllog.txt").write_text(f":::MLLOG {json.dumps(line)}\n")

    def fail(self, number):
        (self.templates / f"i{number}/fails").touch()

    def measure(self):
        for path in self.templates.glob("*/is_here"):
            path.unlink()
        return measure_weak(self.inputs, self.folder, "fake")

    def records(self):
        return [read_record(self.folder / f"i{plan.repetition}/record.json") for plan in self.plans]


@pytest.fixture
def group(tmp_path, monkeypatch):
    return Group(tmp_path, monkeypatch, plans_of(limits=Limits(run_s=20, stall_s=20)))


def test_all_instances_train_at_the_same_time_on_cores_of_their_own(group):
    group.report(group.plans[1], "converged", start_s=0.5)
    made = group.measure()
    assert (made.instances, made.counted) == (INSTANCES, INSTANCES)
    assert [instance.pruned for instance in made.results] == [None] * INSTANCES
    given = [read_part(InstanceShare, group.folder / f"i{k}/raw/instance.json") for k in range(1, INSTANCES + 1)]
    assert [share.nodes[0].cores for share in given] == [(0,), (1,), (2,)]
    assert [instance.shares[0].cores for instance in made.results] == [(1,), (2,), (3,)]  # as the ranks found them
    commands = [record.provenance.command for record in group.records()]
    assert [command[command.index("--cpu-list") + 1] for command in commands] == ["0", "1", "2"]
    assert len({command[command.index("--scratch") + 1] for command in commands}) == INSTANCES
    # One node: S = 1 node of one rank, T = 1 node of three. Clock: 50 s, and 0.5 s later; each ran 0.2 s.
    assert (made.instance_extent.units, made.whole_extent.units, made.whole_extent.ranks) == (1, 1, 3)
    assert made.results[1].run_start_monotonic_s == pytest.approx(50.5)
    assert made.time_to_train_all_monotonic_s == pytest.approx(0.7)
    assert read_part(WeakGroup, group.folder / GROUP) == made
    assert unseal((group.folder / GROUP).read_bytes()).is_sealed


def test_what_is_published_is_only_published_again(group):
    made, before = group.measure(), group.records()
    (group.folder / GROUP).unlink()
    (group.folder / "i2/record.json").unlink()
    assert group.measure() == made
    assert group.records() == before


def test_an_instance_that_fails_is_a_result_and_the_group_is_repeated_as_a_whole(group):
    group.fail(2)
    made = group.measure()
    assert [record.outcome for record in group.records()] == ["converged", "failed", "converged"]
    assert (made.counted, made.results[1].pruned) == (2, "failed")
    assert made.results[1].pruned_reason.endswith("error: the deliberate failure")
    assert made.results[1].shares[0].cores == (1,)  # as they were given
    # Complete as it is; called again, whatever for, nothing is repeated.
    assert group.measure() == made
    (group.templates / "i2/fails").unlink()
    assert publish.forget_breakdowns(group.folder.parent) == [group.folder]
    assert not (group.folder / GROUP).exists()
    again = group.measure()
    assert again.counted == INSTANCES
    assert again.attempt != made.attempt
    for record, first in zip(group.records(), made.results, strict=True):
        assert [(earlier.attempt, earlier.outcome) for earlier in record.earlier_attempts] == [
            (first.attempt, first.outcome)
        ]
        assert (group.folder / f"i{first.number}/attempts/{first.attempt}/record.json").exists()


def test_work_for_all_instances_is_done_once_while_they_hold_the_nodes(group, monkeypatch):
    cleaned, read = [], []
    clean, read_plan = supervise.clean_nodes, attempts.read_plan
    monkeypatch.setattr(supervise, "clean_nodes", lambda *asked: cleaned.append(asked) or clean(*asked))
    monkeypatch.setattr(attempts, "read_plan", lambda file: read.append(file) or read_plan(file))
    group.fail(2)
    group.measure()
    publish.forget_breakdowns(group.folder.parent)
    made = group.measure()
    (_, (_, _, scratches, names)) = cleaned
    assert names == [instance.attempt for instance in made.results]
    assert [scratch.name for scratch in scratches] == [made.attempt, *names]
    # Withdrawn first, the first instance needs to read those of the others.
    assert len(read) == INSTANCES - 1


def test_a_disturbed_group_is_repeated_as_a_whole(tmp_path, monkeypatch):
    limits = Limits(run_s=20, stall_s=20, disturbance=Tolerance(others_ratio=0.1, repeats=1))
    group = Group(tmp_path, monkeypatch, plans_of(2, limits=limits))
    file = group.templates / "i2/ranks/rank0.json"
    use = CoreUse(node="box", cores=2, wall_s=10.0, own_s=10.0, busy_s=14.0, steal_s=0.0)
    quietness = Quietness(use=use, probe_before_flop_per_s=1e9, probe_after_flop_per_s=1e9)
    write_json(read_part(RankReport, file).model_copy(update={"quietness": quietness}), file)
    made = group.measure()
    assert made.counted == 2
    assert [record.is_disturbed for record in group.records()] == [False, True]
    for number, record in enumerate(group.records(), 1):
        assert [earlier.outcome for earlier in record.earlier_attempts] == ["disturbed"]
        (aside,) = (group.folder / f"i{number}/attempts").iterdir()
        assert {"record.json", "interrupted.json", "instance.json"} <= {path.name for path in aside.iterdir()}
        assert not (aside / "nodes.json").exists()


def test_instances_of_different_attempts_are_no_group(group):
    made = group.measure()
    # As if the supervisor had been killed between two publications.
    (group.folder / "i2/raw").rename(group.folder / "i2/attempts" / made.results[1].attempt)
    again = group.measure()
    assert {publish.group_attempt(record) for record in group.records()} == {again.attempt}
    assert again.attempt != made.attempt


@pytest.mark.parametrize(("outcome", "pruned"), [("not_converged", "not_converged"), ("diverged", "not_converged")])
def test_what_missed_its_target_does_not_count(group, outcome, pruned):
    group.report(group.plans[0], outcome, start_s=-5.0)
    made = group.measure()
    assert (made.counted, made.results[0].pruned) == (2, pruned)
    assert made.time_to_train_all_monotonic_s == pytest.approx(0.2)  # of those that count


def test_of_equal_seeds_one_counts(tmp_path, monkeypatch):
    group = Group(tmp_path, monkeypatch, plans_of(seed=5, limits=Limits(run_s=20, stall_s=20)))
    group.report(group.plans[0], "not_converged")
    made = group.measure()
    assert [instance.pruned for instance in made.results] == ["not_converged", None, "equal_seed"]
    assert "seed 5 is that of instance 2" in made.results[2].pruned_reason


def test_instances_that_shared_a_core_are_no_group(group):
    group.report(group.plans[2], "converged", core=1)
    with pytest.raises(LaunchError, match=SAME_PART(first=1, second=3, part="core 1", host="box") + ".*hpcai discard"):
        group.measure()
    assert not (group.folder / GROUP).exists()


def test_each_instance_has_its_own_limit(tmp_path, monkeypatch):
    plans = plans_of(2, limits=Limits(run_s=20, stall_s=20))
    plans[1] = plans[1].model_copy(update={"limits": Limits(run_s=1, stall_s=20)})
    group = Group(tmp_path, monkeypatch, plans)
    monkeypatch.setattr(recording, "LATE_S", 0.1)
    monkeypatch.setitem(
        LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", "import time; time.sleep(3)"])
    )  # too long for one, and without reports for the other
    made = group.measure()
    assert [instance.outcome for instance in made.results] == ["failed", "timed_out"]
    assert made.time_to_train_all_monotonic_s is None
    assert group.records()[0].wall_s > group.records()[1].wall_s  # the limit of one ended no other


def test_an_interrupted_group_ends_all_its_launchers(group, monkeypatch):
    monkeypatch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", "import time; time.sleep(60)"]))
    ended = []
    real = supervise.watch

    def watched(*arguments):
        try:
            return real(*arguments)
        except InterruptedError:
            ended.append(threading.current_thread().name)
            raise

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(supervise, "watch", watched)
    monkeypatch.setattr(supervise, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.measure()
    assert len(ended) == INSTANCES
    assert not (group.folder / "claim.json").exists()
    assert not list(group.folder.rglob("record.json"))
    verdicts = [read_part(Attempt, path) for path in group.folder.glob("i*/attempts/*/interrupted.json")]
    assert [(verdict.outcome, verdict.reason) for verdict in verdicts] == [
        ("interrupted", "given up: KeyboardInterrupt")
    ] * INSTANCES


def test_a_signal_interrupts_all_instances_and_the_group_is_measured_again(group, monkeypatch):
    real = LAUNCHERS["fake"]
    monkeypatch.setitem(LAUNCHERS, "fake", fake(lambda _: [sys.executable, "-c", "import time; time.sleep(60)"]))
    wait = supervise.wait

    def terminated(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return wait(*arguments, **options)

    monkeypatch.setattr(supervise, "wait", terminated)
    reason = FROM_OUTSIDE(signal_name="SIGTERM")
    with refused(RunInterruptedError, INTERRUPTED, reason=reason) as error:
        group.measure()
    assert error.value.status == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.setattr(supervise, "wait", wait)
    monkeypatch.setitem(LAUNCHERS, "fake", real)
    assert group.measure().counted == INSTANCES
    for record in group.records():
        (earlier,) = record.earlier_attempts
        assert (earlier.outcome, earlier.reason) == ("interrupted", reason)


def test_a_group_that_lost_a_node_is_measured_again_as_a_whole(group, monkeypatch):
    group.fail(2)
    real = supervise.clean_nodes
    monkeypatch.setattr(supervise, "clean_nodes", lambda *arguments: real(*arguments) or ("n2",))
    with pytest.raises(RunInterruptedError, match="node n2 does not answer any more"):
        group.measure()
    verdicts = [read_part(Attempt, path) for path in group.folder.glob("i*/attempts/*/interrupted.json")]
    assert [verdict.reason for verdict in verdicts] == ["node n2 does not answer any more"] * INSTANCES
    assert not list(group.folder.rglob("record.json"))


def test_plans_of_another_group_or_of_too_few_instances_are_named(group):
    inputs = Inputs(group.inputs.plans[:2], group.inputs.manifest, None)
    with refused(ConfigError, OTHER_PLANS) as error:
        measure_weak(inputs, group.folder, "fake")
    assert [part[-7:] for part in error.value.facts["found"].split(", ")] == ["i1 of 3", "i2 of 3"]


def test_other_settings_are_refused_and_a_group_is_discarded_as_a_whole(group):
    group.measure()
    changed = group.plans[2].model_copy(update={"rule_set": "hpc_2.0.0"})
    write_plan(changed, group.inputs.plans[2])
    with pytest.raises(RunRefusedError, match=r"rule_set: hpc_3.0.0 -> hpc_2.0.0"):
        group.measure()
    (moved,) = publish.discard_all(group.folder / "i3", "other rules")
    assert moved.parent == group.folder.parent / "discarded"
    assert (moved / "i1/raw/record.json").exists()
    assert not group.folder.exists()
    with pytest.raises(RunRefusedError, match="no published run here"):
        publish.discard_all(group.folder.parent, "again")
    assert publish.forget_breakdowns(group.folder.parent) == []


def test_a_run_that_is_no_instance_keeps_its_digest():
    plan = make_plan()
    assert "instances" not in plan.model_dump(mode="json")
    assert "instances" not in plan.model_dump_json()
    assert RunPlan.model_validate(plan.model_dump(mode="json")) == plan
    weaker = make_plan(kind="weak", instances=2, repetition=2)
    assert weaker.run_id.endswith("/n1x1/i2")
    digests = {plan.digest, weaker.digest, make_plan(kind="weak", instances=3, repetition=2).digest}
    assert len(digests) == 3
    for changes in ({"kind": "weak"}, {"instances": 2}, {"kind": "weak", "instances": 2, "repetition": 3}):
        with pytest.raises(ValueError, match="instances"):
            make_plan(**changes)


def test_too_few_cores_start_nothing(group, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {4, 5})
    with refused(LaunchError, TOO_FEW_CORES, found=2, expected=3):
        group.measure()
    assert not list(group.folder.glob("i*"))
