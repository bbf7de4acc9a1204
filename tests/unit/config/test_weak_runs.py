"""The table of weak-scaling groups: its meaning, and refusals before anything runs."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from unit.record_factory import make_machine
from unit.refusals import wrong_setting

from hpcai.config.load import POINT_TWICE, TOO_MANY_INSTANCES, load_study_file
from hpcai.config.sharing import Sharing
from hpcai.core.errors import ConfigError

ROOT = Path(__file__).parents[3]
HEADER = "benchmark\tvariant\tnodes\tranks_per_node\tinstances\tprecision\tcompression\tglobal_batch"


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "config"
    shutil.copytree(ROOT / "config", copy)
    return copy


def write_groups(folder, *rows):
    (folder / "runs/weak.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    return folder / "study.yaml"


def test_the_example_is_a_group_of_the_default_study(folder):
    plans = load_study_file(folder / "study.yaml").weak_plans()
    assert list(plans) == ["opencatalyst_tiny/fp32/n1x1/i1", "opencatalyst_tiny/fp32/n1x1/i2"]
    assert all((plan.kind, plan.instances, plan.point.ranks) == ("weak", 2, 1) for plan in plans.values())
    assert len({plan.seed for plan in plans.values()}) == 2
    assert len({plan.digest for plan in plans.values()}) == 2


def test_groups_change_no_plan_of_the_runs(folder):
    study = folder / "study.yaml"
    plans = load_study_file(study).plans()
    study.write_text(study.read_text().replace("weak_runs: weak\n", ""))
    assert load_study_file(study).weak_plans() == {}
    assert load_study_file(study).plans() == plans


BAD_ROWS = [
    (
        "cosmoflow_tiny\tfp32\t1\t1\t3\tfp32\tnone\t",
        r"weak.tsv: line 2: instances: found 3; allowed: at most 2: this many of 1 x 1 ranks .* 'laptop'",
    ),
    ("cosmoflow_tiny\tfp32\t1\t2\t2\tfp32\tnone\t", r"instances: found 2; allowed: at most 1"),
    ("cosmoflow_tiny\tfp32\t1\t1\t0\tfp32\tnone\t", r"instances: found 0"),
    ("cosmoflow_tiny\tfp32\t1\t1\ttwo\tfp32\tnone\t", r"instances: found 'two'; allowed: a valid integer"),
    ("cosmoflow_tiny\tfp32\t1\t1\t\tfp32\tnone\t", r"instances: found nothing; allowed: this key is required"),
    ("cosmoflow_tiny\tfp32\t2\t1\t1\tfp32\tnone\t", r"nodes: found 2; allowed: at most 1"),
    ("cosmoflow_tiny\tfp32\t1\t1\t2\tfp32\tnone\t7", r"global_batch: found 7; allowed: a divisor of the"),
    ("resnet50_tiny\tfp32\t1\t1\t2\tfp32\tnone\t", r"benchmark: found 'resnet50_tiny'; allowed: a benchmark of MLPerf"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_bad_row(folder, row, message):
    with pytest.raises(ConfigError, match=message):
        load_study_file(write_groups(folder, row))


def test_a_point_twice_and_a_table_that_is_not_there(folder):
    row = "cosmoflow_tiny\tfp32\t1\t1\t2\tfp32\tnone\t"
    with wrong_setting("line 3: variant", POINT_TWICE, line=2, raised="instances"):
        load_study_file(write_groups(folder, row, row))
    (folder / "runs/weak.tsv").unlink()
    with pytest.raises(ConfigError, match=r"weak.tsv: found no such file"):
        load_study_file(folder / "study.yaml")


def test_repeats_are_no_column_of_groups(folder):
    (folder / "runs/weak.tsv").write_text(f"{HEADER}\trepeats\ncosmoflow_tiny\tfp32\t1\t1\t2\tfp32\tnone\t\t3\n")
    with pytest.raises(ConfigError, match="repeats: found an unknown key"):
        load_study_file(folder / "study.yaml")


def test_more_nodes_take_more_instances(folder):
    machine = yaml.safe_load((folder / "machines/laptop.yaml").read_text())
    (folder / "machines/laptop.yaml").write_text(yaml.safe_dump({**machine, "nodes": 3}))
    rows = ["cosmoflow_tiny\tfp32\t1\t1\t6\tfp32\tnone\t", "cosmoflow_tiny\tfp32\t2\t1\t3\tfp32\tnone\t"]
    assert len(load_study_file(write_groups(folder, rows[0])).weak_plans()) == 6
    with wrong_setting("line 3: instances", TOO_MANY_INSTANCES, found="3", most=2, nodes=2, ranks_per_node=1):
        load_study_file(write_groups(folder, *rows))


@given(
    capacity=st.integers(1, 8),
    cores_per_rank=st.integers(1, 3),
    nodes=st.integers(1, 3),
    ranks_per_node=st.integers(1, 8),
    instances=st.integers(1, 20),
)
def test_no_two_instances_have_anything_in_common(capacity, cores_per_rank, nodes, ranks_per_node, instances):
    assume(ranks_per_node <= capacity)
    cores_per_node = capacity * cores_per_rank
    machine = make_machine(
        ranks_per_node=capacity, cores_per_rank=cores_per_rank, cores_per_node=cores_per_node, nodes=100
    )
    sharing = Sharing.of(machine, nodes, ranks_per_node, instances)
    hosts, cores = [f"node{number}" for number in range(sharing.nodes_needed)], range(sharing.cores_needed)
    accelerators = [str(number) for number in range(capacity)]
    assert sharing.cores_needed <= cores_per_node
    assert instances <= sharing.most_instances(sharing.nodes_needed)
    own = []
    for number in range(1, instances + 1):
        where, which = sharing.hosts_of(number, hosts), sharing.cores_of(number, cores)
        assert (len(where), len(which)) == (nodes, ranks_per_node * cores_per_rank)
        devices = sharing.accelerators_of(number, accelerators)
        assert len(devices) == ranks_per_node
        own.append({(host, part) for host in where for part in (*which, *devices)})
    assert all(not (one & other) for one, other in combinations(own, 2))
    # S <= T <= M x S, in nodes.
    assert nodes <= sharing.nodes_needed <= instances * nodes
