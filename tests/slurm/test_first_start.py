"""The first start at a site whose partition allows less than the profile asks for: said before, and after."""

import shutil

import pytest
from slurm.campaigns import SlurmCampaign
from workflow_project import ROOT, edit_yaml

from hpcai.campaign.sbatch_trial import WOULD_TAKE_ALL
from hpcai.slurm.sbatch_request import FROM_STUDY

PROFILE = "home/snakemake/slurm"
WORDS = "Requested time limit is invalid"


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """A campaign whose profile names the partition for jobs of a minute."""
    campaign = SlurmCampaign(tmp_path_factory.mktemp("first"), cluster, ["cosmoflow_mini fp32 2 1"])
    profile = campaign.folder / PROFILE
    profile.unlink()
    shutil.copytree(ROOT / "profiles/slurm", profile)
    ask_for(campaign, slurm_partition="short")
    return campaign


def ask_for(campaign, **resources):
    changes = {f"default-resources__{name}": value for name, value in resources.items()}
    edit_yaml(campaign.folder / PROFILE / "config.yaml", **changes)


def check(campaign):
    return campaign.hpcai("check", "config/tiny.yaml", "--profile", PROFILE)


def test_the_check_names_file_key_words_and_limit(campaign):
    before = campaign.cluster.jobs()
    status, said = check(campaign)
    assert status == 1, said
    (default,) = [line for line in said.splitlines() if "default-resources.runtime: found 240 minutes" in line]
    assert f"{PROFILE}/config.yaml" in default
    assert {"prepare_data", "pack_data", "count_work"} <= set(default.replace(",", " ").split())
    assert WORDS in default
    assert "partition short allows 1:00" in default
    (runs,) = [line for line in said.splitlines() if "limits.run_s of the study" in line and "found 15" in line]
    assert "train" in runs
    assert "set-resources.measure_ceiling.runtime" in said
    assert set(campaign.cluster.jobs()) <= set(before)  # nothing was submitted; Slurm forgets old jobs


@pytest.mark.slow
def test_the_doctor_says_why_nothing_has_started(campaign):
    assert campaign.run("pack", "--retries", "0") == 1
    status, said = campaign.hpcai("doctor")
    assert status == 2
    (refused,) = [line for line in said.splitlines() if "Slurm rejected" in line]
    assert "prepare_data (data/cosmoflow_mini/manifest.json)" in refused
    assert WORDS in refused
    assert "-> runtime: " in said


def test_what_slurm_takes_passes_the_check_and_starts(campaign):
    ask_for(campaign, slurm_partition="cpu")
    status, said = check(campaign)
    assert status == 0, said
    assert WOULD_TAKE_ALL.find_in(said)
    assert campaign.run("pack") == 0, campaign.output
    assert "Slurm rejected" not in campaign.hpcai("doctor")[1]


def test_a_node_that_is_not_there_is_named_by_the_check(campaign):
    edit_yaml(campaign.folder / "config/machines/box.yaml", memory_bytes="9 TiB")
    status, said = check(campaign)
    assert status == 1
    assert any(f"{FROM_STUDY[name]}: found" in said for name in ("mem_mb", "tasks_per_node"))
