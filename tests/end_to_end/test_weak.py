"""Two instances of a training at the same time on one core each, and a group of which one is killed.

Their ranks only obey the plan (tests/stub_ranks); real ones are in test_five.py.
"""

import json
import shutil
from pathlib import Path

import pytest
from end_to_end.hit_ranks import hitting_a_rank
from workflow_project import ROOT, STUB_RANKS, Project, edit_yaml

from hpcai.measure.publish import OTHER_SETTINGS
from hpcai.parsers.mllog import read_mllog
from hpcai.records.files import read_part, read_record
from hpcai.records.weak import GROUP, WeakGroup

HEADER = (ROOT / "tests/config/runs/weak.tsv").read_text().splitlines()[0]
WELL, HIT = "longer/fp32/n1x1", "longer/hit/n1x1"
# 25 epochs of a stub's, 5 s: several times as long as one instance's start may lag behind the other's.
LONGER = {"name": "longer", "recipe__max_epochs": 50, "target__value": 0.04}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A group that is well, and one whose second instance is killed."""
    folder = tmp_path_factory.mktemp("weak")
    shutil.copytree(ROOT / "tests/config", folder / "config")
    shutil.copy(folder / "config/benchmarks/cosmoflow_mini.yaml", folder / "config/benchmarks/longer.yaml")
    edit_yaml(folder / "config/benchmarks/longer.yaml", **LONGER)
    edit_yaml(folder / "config/weak.yaml", benchmarks=["longer"])
    rows = ("longer\tfp32\t1\t1\t2\tfp32\tnone\t", "longer\thit\t1\t1\t2\tfp32\tnone\t")
    (folder / "config/runs/weak.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    table = folder / "config/runs/tiny.tsv"
    table.write_text(table.read_text().replace("cosmoflow_mini", "longer"))
    project = Project(folder, study=folder / "config/weak.yaml", environment=STUB_RANKS)
    with hitting_a_rank(folder / "results/weak" / HIT / "i2", "clocks.json") as killed:
        done = project.snakemake(*(f"results/weak/{group}/{GROUP}" for group in (WELL, HIT)))
    assert done.returncode == 0, done.stdout
    assert killed, "no rank was there to be killed"
    return project


def group_of(campaign, name):
    return read_part(WeakGroup, campaign.directory / "results/weak" / name / GROUP)


def log_times(campaign, name, number):
    """Times of run_start and run_stop in the log of an instance [ms]."""
    events = read_mllog(campaign.directory / f"results/weak/{name}/i{number}/raw/mllog.txt").events
    return [next(event.time_ms for event in events if event.key == key) for key in ("run_start", "run_stop")]


def test_both_instances_train_at_the_same_time(campaign):
    group = group_of(campaign, WELL)
    assert (group.instances, group.counted) == (2, 2)
    one, other = group.results
    assert one.run_start_monotonic_s < other.run_stop_monotonic_s
    assert other.run_start_monotonic_s < one.run_stop_monotonic_s
    assert one.seed != other.seed


def test_each_has_a_core_of_its_own(campaign):
    group = group_of(campaign, WELL)
    records = [read_record(campaign.directory / f"results/weak/{WELL}/i{number}/record.json") for number in (1, 2)]
    cores = [set(record.ranks[0].placement.cores) for record in records]
    assert [len(own) for own in cores] == [1, 1]
    assert not cores[0] & cores[1]
    assert [set(instance.shares[0].cores) for instance in group.results] == cores
    # Two ranks of one node: S and T are one node each, whatever M (benchmarks.md 8.4).
    assert (group.instance_extent.units, group.whole_extent.units, group.whole_extent.ranks) == (1, 1, 2)


def test_time_to_train_all_of_the_logs_is_that_of_the_clock(campaign):
    group = group_of(campaign, WELL)
    times = [log_times(campaign, WELL, number) for number in (1, 2)]
    logged_s = (max(stop for _, stop in times) - min(start for start, _ in times)) / 1000
    # Stamps of whole milliseconds, and what passes between reading the clock and writing the line on a busy machine.
    assert group.time_to_train_all_monotonic_s == pytest.approx(logged_s, abs=0.5)
    runs_s = [(stop - start) / 1000 for start, stop in times]
    assert max(runs_s) <= logged_s < sum(runs_s)


def test_an_instance_that_is_killed_does_not_stop_the_other(campaign):
    group = group_of(campaign, HIT)
    assert [instance.outcome for instance in group.results] == ["converged", "failed"]
    assert [instance.pruned for instance in group.results] == [None, "failed"]
    assert group.counted == 1
    assert "exit status" in group.results[1].pruned_reason
    record = read_record(campaign.directory / f"results/weak/{HIT}/i1/record.json")
    assert group.time_to_train_all_monotonic_s == pytest.approx(record.training.run_s)  # of the one that counts


def test_nothing_is_left_behind(campaign):
    for path in (campaign.directory / "results/weak").rglob("raw/record.json"):
        command = read_record(path).provenance.command
        scratch = Path(command[command.index("--scratch") + 1])
        assert not list(scratch.parent.glob(f"{scratch.name}*"))
    assert not list((campaign.directory / "results/weak").rglob("claim.json"))


def test_a_second_call_does_nothing_and_a_forced_one_repeats_nothing(campaign):
    target = f"results/weak/{HIT}/{GROUP}"
    before = group_of(campaign, HIT)
    assert campaign.dry_run(target) == {}
    done = campaign.snakemake(target, "--forcerun", "train_together")
    assert done.returncode == 0, done.stdout
    assert "published again, not repeated" in done.stdout
    assert group_of(campaign, HIT) == before


def test_other_settings_are_refused(campaign):
    benchmark = campaign.directory / "config/benchmarks/longer.yaml"
    text = benchmark.read_text()
    edit_yaml(benchmark, recipe__base_learning_rate=0.02)
    done = campaign.snakemake("--dry-run", f"results/weak/{WELL}/{GROUP}")
    benchmark.write_text(text)
    assert done.returncode != 0
    assert f"{WELL}/i1: {OTHER_SETTINGS.opening}" in done.stdout
    # One instance more is another group: all would have to be measured together.
    table = campaign.directory / "config/runs/weak.tsv"
    rows = table.read_text()
    table.write_text(rows.replace("hit\t1\t1\t2", "hit\t1\t1\t1"))
    done = campaign.snakemake("--dry-run", f"results/weak/{WELL}/{GROUP}")
    table.write_text(rows)
    assert "instances: 2 -> 1" in done.stdout


def test_plans_say_which_instance_they_are(campaign):
    plan = json.loads((campaign.directory / f"results/weak/{WELL}/i2/raw/plan.json").read_text())
    assert (plan["kind"], plan["repetition"], plan["instances"]) == ("weak", 2, 2)
