"""Before anything is done, plans are compared with what was measured, and with what was written."""

from collections.abc import Mapping

import pytest
from unit.record_factory import make_machine, make_record
from unit.refusals import told

from hpcai.config.plan_file import read_plan, write_plan
from hpcai.config.study import Limits
from hpcai.core.errors import ConfigError
from hpcai.measure import publish
from hpcai.measure.publish import CAPTURE, DIGEST, OTHER_SETTINGS, RAW, RECORD, kept_plan, refuse_changed
from hpcai.records.weak import GROUP


class Asked(Mapping):
    """Plans that note which of them were made."""

    def __init__(self, plans):
        self.plans, self.made = plans, []

    def __getitem__(self, run_id):
        self.made.append(run_id)
        return self.plans[run_id]

    def __iter__(self):
        return iter(self.plans)

    def __len__(self):
        return len(self.plans)


def measured(folder, plan):
    raw = folder / plan.run_id / RAW
    raw.mkdir(parents=True)
    write_plan(plan, raw / "plan.json")
    (raw / DIGEST).write_text(plan.digest + "\n")


def test_only_plans_of_published_runs_are_made(tmp_path):
    plan = make_record().plan
    other = plan.model_copy(update={"repetition": 7})
    plans = Asked({plan.run_id: plan, other.run_id: other})
    refuse_changed([(tmp_path, plans)])
    assert plans.made == []
    measured(tmp_path, other)
    refuse_changed([(tmp_path, plans)])
    assert plans.made == [other.run_id]


def test_a_changed_plan_of_a_published_run_is_refused(tmp_path):
    plan = make_record().plan
    measured(tmp_path, plan)
    plans = {plan.run_id: plan.model_copy(update={"rule_set": "hpc_2.0.0"})}
    with pytest.raises(ConfigError, match=r"rule_set: hpc_3\.0\.0 -> hpc_2\.0\.0"):
        refuse_changed([(tmp_path, plans)])
    # With a seed of its own each run of a study with entropy differs from its plan: the run itself compares.
    drawn = plan.model_copy(update={"seed": None, "rule_set": "hpc_2.0.0"})
    refuse_changed([(tmp_path, {plan.run_id: drawn})])


def test_the_plan_of_a_measured_run_is_kept_unless_it_asks_for_another_run(tmp_path):
    plan, path = make_record().plan, tmp_path / "plan.json"
    assert kept_plan(plan, path) == plan
    write_plan(plan, path)
    renamed = plan.model_copy(update={"study": "another"})
    assert kept_plan(renamed, path) == renamed  # nothing is measured yet
    (tmp_path / RAW).mkdir()
    (tmp_path / RECORD).touch()
    assert kept_plan(renamed, path) == plan
    changed = plan.model_copy(update={"rule_set": "hpc_2.0.0"})
    assert kept_plan(changed, path) == changed


@pytest.mark.parametrize(
    ("folder", "record"), [("r1", RECORD), ("r1", CAPTURE), ("i1", f"../{GROUP}")], ids=["run", "profile", "group"]
)
def test_what_is_tried_again_has_the_limits_of_now(tmp_path, folder, record):
    own, plan = tmp_path / folder, make_record().plan
    (own / RAW).mkdir(parents=True)
    write_plan(plan, own / "plan.json")
    longer = plan.model_copy(update={"limits": Limits(run_s=86400)})
    (own / record).touch()
    assert kept_plan(longer, own / "plan.json") == plan
    (own / record).unlink()  # as `hpcai retry` does
    assert kept_plan(longer, own / "plan.json") == longer


def test_the_record_of_one_instance_keeps_no_plan_of_a_group_that_is_repeated(tmp_path):
    own, plan = tmp_path / "i1", make_record().plan
    (own / RAW).mkdir(parents=True)
    write_plan(plan, own / "plan.json")
    (own / RECORD).touch()
    renamed = plan.model_copy(update={"study": "another"})
    assert kept_plan(renamed, own / "plan.json") == renamed


def test_a_plan_that_cannot_be_read_is_none(tmp_path):
    plan = make_record().plan
    (tmp_path / RAW).mkdir()
    (tmp_path / RECORD).touch()
    (tmp_path / "plan.json").write_text('{"run')
    assert kept_plan(plan, tmp_path / "plan.json") == plan


SOURCE = {"source": "data sheet, 2026-01-02"}
LINK = {"bandwidth_bytes_per_s": "25 GB/s", **SOURCE}
CPU = {"kind": "cpu"}
FILLED_LATER = {
    "nodes": {"nodes": 3},
    "links": {"links": {"network": LINK}},
    "hpl": {"hpl": {"processor_peak": {"rate_flop_per_s": "1 TFLOP/s", **SOURCE}}},
    "model": {"device": {**CPU, "model": "one"}},
    "memory": {"device": {**CPU, "memory_bytes": "16 GiB"}},
    "memory link": {"device": {**CPU, "memory_link": LINK}},
    "peaks": {"device": {**CPU, "peaks": {"fp32": {"rate_flop_per_s": "1 TFLOP/s", **SOURCE}}}},
    "shared storage": {"storage": {"node_local": "/tmp/scratch", "shared": "a file system"}},
}
"""What a machine file declares, as it is filled in after the runs of `make_machine`."""


def with_file(plan, **changes):
    return plan.model_copy(update={"machine": make_machine(**changes)})


def finished(folder, plan):
    measured(folder, plan)
    (folder / plan.run_id / RECORD).touch()
    write_plan(plan, folder / plan.run_id / "plan.json")


@pytest.mark.parametrize("changes", FILLED_LATER.values(), ids=FILLED_LATER)
def test_what_a_machine_file_only_declares_may_change_after_a_run(tmp_path, changes):
    plan = make_record().plan
    finished(tmp_path, plan)
    later = with_file(plan, **changes)
    assert later.digest != plan.digest
    run = tmp_path / plan.run_id
    assert refuse_changed([(tmp_path, {plan.run_id: later})]) == {run: plan.machine}
    assert kept_plan(later, run / "plan.json") == plan
    assert refuse_changed([(tmp_path, {plan.run_id: plan})]) == {}


@pytest.mark.parametrize(
    "changes",
    [{"memory_bytes": "16 GiB"}, {"storage": {"node_local": "/tmp/other"}}, {"cores_per_node": 8}],
    ids=lambda one: next(iter(one)),
)
def test_what_a_run_uses_of_the_machine_file_may_not(tmp_path, changes):
    plan = make_record().plan
    finished(tmp_path, plan)
    later = with_file(plan, nodes=3, **changes)
    with pytest.raises(ConfigError) as caught:
        refuse_changed([(tmp_path, {plan.run_id: later})])
    told_changes = told(str(caught.value), OTHER_SETTINGS)["changes"]
    assert next(iter(changes)) in told_changes
    assert "machine.nodes" not in told_changes
    assert kept_plan(later, tmp_path / plan.run_id / "plan.json") == later


def test_of_each_version_of_a_machine_file_one_plan_is_read(tmp_path, monkeypatch):
    first = make_record().plan
    plans = [first.model_copy(update={"repetition": number, "seed": number}) for number in range(1, 7)]
    for plan in plans:
        finished(tmp_path, with_file(plan, nodes=5 if plan.repetition > 3 else 4))
    read = []
    monkeypatch.setattr(publish, "read_plan", lambda path: read.append(path) or read_plan(path))
    then = refuse_changed([(tmp_path, {plan.run_id: with_file(plan, nodes=3) for plan in plans})])
    assert {folder.name: machine.nodes for folder, machine in then.items()} == {
        f"r{number}": 5 if number > 3 else 4 for number in range(1, 7)
    }
    assert len(read) == 2


def test_a_run_that_is_repeated_has_what_is_declared_now(tmp_path):
    plan = make_record().plan
    measured(tmp_path, plan)  # without a record to wait for, as `hpcai retry` leaves it
    assert refuse_changed([(tmp_path, {plan.run_id: with_file(plan, nodes=3)})]) == {}


def test_of_runs_with_seeds_of_their_own_the_machine_file_is_told_as_well(tmp_path):
    drawn = make_record().plan.model_copy(update={"seeds": "entropy"})
    finished(tmp_path, drawn)
    asked = with_file(drawn, nodes=3).model_copy(update={"seed": None})
    assert refuse_changed([(tmp_path, {drawn.run_id: asked})]) == {tmp_path / drawn.run_id: drawn.machine}
