"""The tiny study on a real Slurm through the Slurm profile: a real training has the same results as on this machine."""

import csv
import re
import shlex
import sys
from pathlib import Path

import pytest
from slurm.campaigns import SlurmCampaign
from workflow_project import ROOT, STUB_RANKS, Project

from hpcai.parsers.mllog import read_mllog
from hpcai.records.files import read_part, read_record
from hpcai.records.weak import WeakGroup

ONE, TWO = "cosmoflow_mini/real/n1x2", "cosmoflow_mini/fp32/n2x1"
GROUP = "results/weak/cosmoflow_mini/fp32/n1x1/group.json"
LINK = "results/characterise/allreduce_n2x1.json"
PROFILE = "results/profiles/timeline/cosmoflow_mini/fp32/n2x1/r1/capture.json"


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """The finished study: runs on one node and on two, a profile, an allreduce and a weak-scaling group over two."""
    folder = tmp_path_factory.mktemp("campaign")
    rows = ["cosmoflow_mini real 1 2", "cosmoflow_mini fp32 2 1"]
    campaign = SlurmCampaign(folder, cluster, rows, weak_runs="weak")
    table = folder / "config/runs/weak.tsv"
    table.write_text(table.read_text().replace("\t1\t1\t2\tfp32", "\t1\t1\t3\tfp32"))
    assert campaign.run("analyse", GROUP, LINK, PROFILE) == 0, campaign.output
    return campaign


def test_only_what_computes_is_a_job(campaign):
    here = set(re.findall(r"^localrule (\w+):", campaign.output, re.MULTILINE))
    assert {"collect_runs", "show_runs"} <= here
    assert not here & {"train", "train_together", "prepare_data", "pack_data", "profile_run", "measure_allreduce"}


def losses(folder, run):
    with (folder / f"results/runs/{run}/r1/raw/steps.csv").open() as stream:
        return [row["train_loss"] for row in csv.DictReader(stream)]


def test_each_run_is_one_job_of_whole_nodes(campaign):
    for run, nodes in ((ONE, {"n1", "n2", "n3"}), (TWO, {"n1", "n2", "n3"})):
        record = campaign.record(run)
        assert record.outcome == "converged"
        places = [rank.placement for rank in record.ranks]
        assert {place.hostname for place in places} <= nodes
        assert len({place.hostname for place in places}) == record.plan.point.nodes
        assert record.provenance.environment["SLURM_JOB_ID"]
    one, two = ([rank.placement for rank in campaign.record(run).ranks] for run in (ONE, TWO))
    assert [(place.node_index, place.local_rank) for place in one] == [(0, 0), (0, 1)]
    assert [(place.node_index, place.local_rank) for place in two] == [(0, 0), (1, 0)]
    assert not set(one[0].cores) & set(one[1].cores)


def test_every_node_forgot_the_data_and_kept_nothing(campaign):
    for run in (ONE, TWO):
        record = campaign.record(run)
        assert record.provenance.page_cache in ("dropped", "not_permitted")
        log = campaign.folder / f"results/runs/{run}/r1/raw/mllog.txt"
        cleared = [event.value for event in read_mllog(log).events if event.key == "cache_clear"]
        assert cleared == [record.provenance.page_cache == "dropped"]
        scratch = record.provenance.command[record.provenance.command.index("--scratch") + 1]
        assert record.attempt in scratch
    for node in campaign.cluster.nodes:
        assert not campaign.cluster.on(node, "find", campaign.cluster.scratch, "-name", "*.tfrecord").stdout


def test_a_run_leaves_few_files_whatever_its_ranks(campaign):
    one, two = (
        {file.name for file in (campaign.folder / f"results/runs/{run}/r1/raw").iterdir()} for run in (ONE, TWO)
    )
    assert one == two
    assert {"ranks.json", "resources.parquet", "allocation.json", "nodes.json"} <= one
    assert len(one) <= 14


def test_the_trajectory_is_that_of_the_local_profile(campaign, tmp_path):
    local = Project(tmp_path, study=campaign.folder / "config/tiny.yaml")
    machine = ["--set-resources", "train:launcher=horovodrun"]
    done = local.snakemake(f"results/runs/{ONE}/r1/record.json", *machine)
    assert done.returncode == 0, done.stdout
    here, there = read_record(tmp_path / f"results/runs/{ONE}/r1/record.json"), campaign.record(ONE)
    assert here.plan_digest == there.plan_digest
    assert losses(tmp_path, ONE) == losses(campaign.folder, ONE)
    assert here.ranks[0].weights_sha256 == there.ranks[0].weights_sha256


def test_a_weak_scaling_group_has_several_nodes(campaign):
    group = read_part(WeakGroup, campaign.folder / GROUP)
    assert (group.instances, group.counted) == (3, 3)
    assert group.whole_extent.units == 2
    shares = [(share.host, core) for result in group.results for share in result.shares for core in share.cores]
    assert len(set(shares)) == len(shares) == 3


def test_profiles_and_links_reach_over_nodes(campaign):
    assert '"measured"' in (campaign.folder / PROFILE).read_text()
    assert '"samples": []' not in (campaign.folder / LINK).read_text()
    assert (
        "across nodes" in (campaign.folder / LINK).read_text() or '"nodes": 2' in (campaign.folder / LINK).read_text()
    )


def test_doctor_tells_what_is_there_and_what_was_not_asked_for(campaign):
    status, said = campaign.hpcai("doctor")
    assert status == 2, said
    assert re.search(r"timed runs +2 +2", said)
    assert "not started: profiles/io/cosmoflow_mini/fp32/n2x1 r1" in said
    assert "--profile slurm" in said.split("Next:")[1]


def test_efficiency_knows_what_slurm_gave(campaign):
    status, said = campaign.hpcai("efficiency")
    assert status == 0, said
    assert TWO in said
    table = campaign.folder / "results/tables/efficiency.csv"
    rows = {row["run_id"].removesuffix("/r1"): row for row in csv.DictReader(table.open())}
    assert (float(rows[TWO]["asked_nodes"]), float(rows[TWO]["asked_cores"])) == (2.0, 4.0)
    assert rows[TWO]["source"].startswith("scontrol")


def test_a_second_call_does_nothing(campaign):
    assert campaign.run("analyse") == 0
    assert "Nothing to be done" in campaign.output


def test_the_controller_can_live_inside_one_allocation(campaign):
    with (campaign.folder / "config/runs/tiny.tsv").open("a") as table:
        table.write("cosmoflow_mini\tinside\t2\t1\t1\tfp32\tnone\t\n")
    run = "cosmoflow_mini/inside/n2x1"
    command = ["env", *(f"{name}={value}" for name, value in STUB_RANKS.items())]
    command += [Path(sys.executable).parent / "snakemake", f"results/runs/{run}/r1/record.json"]
    command += ["--snakefile", ROOT / "Snakefile", "--directory", campaign.folder]
    command += [
        "--configfile",
        campaign.folder / "config/tiny.yaml",
        "--config",
        f"config_dir={campaign.folder}/config",
    ]
    log = campaign.folder / "inside.log"
    job = campaign.cluster.submit(shlex.join(map(str, command)), "-N3", "--exclusive", "--mem=0", f"--output={log}")
    ended = ("COMPLETED", "FAILED", "TIMEOUT")
    campaign.cluster.wait_for(lambda: campaign.cluster.jobs()[job] in ended, 120, "the allocation")
    assert campaign.cluster.jobs()[job] == "COMPLETED", log.read_text()
    record = campaign.record(run)
    assert record.outcome == "converged"
    assert [rank.placement.hostname for rank in record.ranks] == ["n1", "n2"]
