"""Before anything is done, plans are compared with what was measured, and with what was written."""

from collections.abc import Mapping

import pytest
from unit.record_factory import make_record

from hpcai.config.plan_file import write_plan
from hpcai.config.study import Limits
from hpcai.core.errors import ConfigError
from hpcai.measure.publish import CAPTURE, DIGEST, RAW, RECORD, kept_plan, refuse_changed
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
