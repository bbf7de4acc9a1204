"""Plans of a study are the same for the same study, and made only on request."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from hpcai.catalogue.profiles import PROFILES
from hpcai.config.load import load_study_file
from hpcai.config.plans import Campaign
from hpcai.config.runs import RunPlan

ROOT = Path(__file__).parents[3]
DIGESTS = {
    "timed": "a8238d2b026800c9f47b30db48511b256c4cf546f21a3253385b293dce3d32d9",
    "timeline": "3ffe24b0d1d66831e7b74ecd3f72b16e9a480fd5d765d18e50034d0d8dc6bcb3",
    "kernels": "b4b8a36f70756375348f35ba8a9d28dc9069218bd76676d1f650c718fe4db531",
    "counters": "ddc53dc2555506a43d693dd760d6779c1d17016e4d5bcc7276bcc781015806a2",
    "io": "c4753850a5fbf34efc8b0cb4ea485d35ccfe663f73f5715401758c28a1c398c8",
    "power": "83f8cc4dc93059114e59d1511616b0da80166815668e8fc25fa44000c400420c",
}
"""SHA-256 of run ids and digests of the default study's plans. Another digest makes finished runs look changed."""


@pytest.fixture(scope="module")
def campaign():
    return load_study_file(ROOT / "config/study.yaml")


def digest_of(plans):
    return hashlib.sha256("\n".join(f"{run_id} {plan.digest}" for run_id, plan in plans.items()).encode()).hexdigest()


def test_digests_of_the_default_study_stay_as_they_are(campaign):
    kinds = {"timed": campaign.plans(), **{profile: campaign.profiles(profile) for profile in PROFILES}}
    assert {kind: digest_of(plans) for kind, plans in kinds.items()} == DIGESTS


def test_a_plan_has_the_run_id_that_it_is_found_by():
    weak = load_study_file(ROOT / "tests/config/weak.yaml")
    for plans in (weak.plans(), weak.weak_plans(), *map(weak.profiles, PROFILES)):
        assert plans
        assert {run_id: plan.run_id for run_id, plan in plans.items()} == {run_id: run_id for run_id in plans}


def test_a_plan_is_made_when_it_is_asked_for(monkeypatch, campaign):
    asked = []
    make = Campaign.plan

    def count(self, row, repetition, *arguments, **changes) -> RunPlan:
        asked.append(repetition)
        return make(self, row, repetition, *arguments, **changes)

    monkeypatch.setattr(Campaign, "plan", count)
    checked = load_study_file(ROOT / "config/study.yaml")
    plans = checked.plans()
    assert list(plans) == list(campaign.plans())
    assert "cosmoflow_tiny/fp32/n1x2/r2" in plans
    assert "cosmoflow_tiny/fp32/n1x2/r4" not in plans
    assert asked == []
    assert plans["cosmoflow_tiny/fp32/n1x2/r2"].repetition == 2
    assert asked == [2]


def test_a_round_holds_each_point_once_before_the_next_round_begins(campaign):
    row, other = campaign.rows[0], campaign.rows[-1]
    ranks = {f"n1x{number}": row.model_copy(update={"ranks_per_node": number, "repeats": number}) for number in (2, 3)}
    rows = (ranks["n1x2"], other.model_copy(update={"repeats": 1}), ranks["n1x3"])
    order = dataclasses.replace(campaign, rows=rows).rounds()
    own, last = f"{row.benchmark}/{row.variant}", f"{other.benchmark}/{other.variant}/n1x{other.ranks_per_node}"
    expected = [f"{own}/n1x2/r1", f"{own}/n1x3/r1", f"{last}/r1", f"{own}/n1x2/r2", f"{own}/n1x3/r2", f"{own}/n1x3/r3"]
    assert list(order) == expected


def test_only_named_variants_are_profiled(campaign):
    first = campaign.rows[0]
    rows = (first, first.model_copy(update={"variant": "other"}))
    both = dataclasses.replace(campaign, rows=rows, study=campaign.study.model_copy(update={"profile_variants": ()}))
    one = dataclasses.replace(both, study=both.study.model_copy(update={"profile_variants": ("other",)}))
    assert {plan.point.variant for plan in both.profiles("timeline").values()} == {first.variant, "other"}
    assert {plan.point.variant for plan in one.profiles("timeline").values()} == {"other"}


def test_rounds_hold_every_run(campaign):
    assert sorted(campaign.rounds()) == sorted(campaign.plans())
