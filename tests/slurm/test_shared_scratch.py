"""Scratch that is meant to be local to each node and is one folder of all of them, as on nodes without disks."""

import json

import pytest
from slurm.campaigns import SlurmCampaign, target_of
from workflow_project import Project, edit_yaml

RUN = "slow/shared/n3x1"
GROUP = "results/weak/cosmoflow_mini/fp32/n1x1"
ALONE = {"ranks_per_node": 1, "cores_per_rank": 2}  # one instance on each node


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """A run over three nodes, and a group of three single nodes, that stage to a folder which all nodes see."""
    folder = tmp_path_factory.mktemp("shared")
    campaign = SlurmCampaign(folder, cluster, ["slow shared 3 1"], weak_runs="weak")
    edit_yaml(folder / "config/machines/box.yaml", storage__node_local=str(folder / "scratch"), **ALONE)
    edit_yaml(folder / "config/benchmarks/slow.yaml", recipe__global_batch=6, data__train_samples=18)
    table = folder / "config/runs/weak.tsv"
    table.write_text(table.read_text().replace("\t1\t1\t2\tfp32", "\t1\t1\t3\tfp32"))
    local = Project(folder, study=folder / "config/tiny.yaml")
    done = local.snakemake("data/slow/packed/packed.json", "data/cosmoflow_mini/packed/packed.json")
    assert done.returncode == 0, done.stdout
    assert campaign.run(target_of(RUN), f"{GROUP}/group.json") == 0, campaign.output
    return campaign


def test_three_nodes_stage_beside_each_other_and_the_record_says_so(campaign):
    record = campaign.record(RUN)
    assert record.outcome == "not_converged", record.reason  # its target cannot be reached
    assert {rank.placement.hostname for rank in record.ranks} == {"n1", "n2", "n3"}
    assert record.training.staging.place == "shared"
    nodes = json.loads((campaign.folder / f"results/runs/{RUN}/r1/raw/nodes.json").read_text())["nodes"]
    assert max(node["nodes_here"] for node in nodes) == 3


def test_instances_of_one_node_each_are_told_that_they_share_it(campaign):
    records = sorted((campaign.folder / GROUP).glob("i*/record.json"))
    places = [json.loads(record.read_text())["training"]["staging"]["place"] for record in records]
    assert places == ["shared"] * 3


def test_nothing_is_left_in_it(campaign):
    assert list((campaign.folder / "scratch").iterdir()) == []
