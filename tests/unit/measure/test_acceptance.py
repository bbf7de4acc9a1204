"""Which nodes are measured together, what becomes of one that fails, and which training fits how many nodes."""

import itertools
import json
import sys

import pytest
from unit.record_factory import make_plan
from unit.refusals import refused

from hpcai.config.acceptance import Acceptance
from hpcai.core.errors import LaunchError
from hpcai.measure import acceptance
from hpcai.measure.acceptance import (
    NEEDS_A_JOB,
    TOO_FEW_NODES,
    Asked,
    chosen_rounds,
    hosts_to_accept,
    rings_of,
    tournament,
)
from hpcai.measure.acceptance_training import NO_BATCH, _sized
from hpcai.measure.inputs import Inputs
from hpcai.records.acceptance import Series
from hpcai.slurm.allocation import Allocation

HOSTS = [f"n{number}" for number in range(1, 10)]


@pytest.mark.parametrize("count", range(2, 10))
def test_a_tournament_has_every_pair_once_and_each_node_once_a_round(count):
    hosts = HOSTS[:count]
    rounds = tournament(hosts)
    assert len(rounds) == count - (count % 2 == 0)
    for pairs in rounds:
        nodes = [node for pair in pairs for node in pair]
        assert len(set(nodes)) == len(nodes) == count // 2 * 2
    met = sorted(tuple(sorted(pair)) for pairs in rounds for pair in pairs)
    assert met == sorted(itertools.combinations(hosts, 2))


def test_fewer_rounds_are_different_ones():
    rounds = chosen_rounds(HOSTS[:8], 3)
    pairs = [tuple(sorted(pair)) for own in rounds for pair in own]
    assert len(rounds) == 3
    assert len(set(pairs)) == len(pairs) == 12
    assert chosen_rounds(HOSTS[:1], 3) == []


@pytest.mark.parametrize(("count", "sizes"), [(2, []), (3, [[3]]), (8, [[4, 4], [8]]), (9, [[4, 4], [4], [9]])])
def test_rings_share_no_node(count, sizes):
    rounds = rings_of(HOSTS[:count], 4)
    assert [[len(ring) for ring in rings] for rings in rounds] == sizes
    for rings in rounds:
        nodes = [node for ring in rings for node in ring]
        assert len(set(nodes)) == len(nodes)
    assert not rounds or {node for rings in rounds for ring in rings for node in ring} == set(HOSTS[:count])


def test_several_nodes_need_a_job(monkeypatch):
    monkeypatch.setattr(acceptance, "find_allocation", lambda: None)
    assert len(hosts_to_accept(1)) == 1
    with refused(LaunchError, NEEDS_A_JOB):
        hosts_to_accept(2)
    monkeypatch.setattr(acceptance, "find_allocation", lambda: Allocation("1", ("a", "b", "c")))
    assert hosts_to_accept(2) == ("a", "b")
    with refused(LaunchError, TOO_FEW_NODES):
        hosts_to_accept(4)


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "nodes").mkdir()
    plan = make_plan(max_steps=20)
    return Asked(plan, Acceptance(), Inputs((), tmp_path / "manifest.json", None), "horovodrun", tmp_path)


NODE = """
import json, sys
from hpcai.machine.acceptance import result_file
from pathlib import Path
words = sys.argv
parts = words[words.index("--parts") + 1 : words.index("--output")]
folder = Path(words[words.index("--output") + 1])
for node in ("a", "c"):
    fields = {"kind": "node", "subject": node, "nodes": [node], "measure": "gemm fp32", "unit": "FLOP/s"}
    report = {"node": node, "series": [{**fields, "values": [1.0, 2.0, 3.0]}]}
    result_file(folder, node, parts).write_text(json.dumps(report))
result_file(folder, "d", parts).write_text("{")
"""


def test_a_node_without_its_file_has_failed_and_the_others_count(asked, monkeypatch):
    monkeypatch.setattr(acceptance, "_step", lambda _: [sys.executable, "-c", NODE])
    monkeypatch.setattr(acceptance, "LATE_S", 0.0)
    found = list(acceptance._on_nodes(asked, ["a", "b", "c", "d"], ("compute", "memory"), 4))
    there = {one.subject: one.values for one in found if one.values}
    assert there == {"a": (1.0, 2.0, 3.0), "c": (1.0, 2.0, 3.0)}
    lost = {(one.subject, one.measure, one.failed) for one in found if not one.values}
    assert lost == {(node, measure, True) for node in ("b", "d") for measure in ("gemm fp32", "memory copy")}


def test_nodes_that_take_turns_are_measured_in_passes(asked, monkeypatch):
    order = []

    def measure(_, group, parts, longest_s):
        order.append((*group, longest_s))
        fields = {"kind": "node", "subject": group[0], "nodes": tuple(group), "measure": "gemm fp32", "unit": "FLOP/s"}
        yield Series(**fields, values=() if group == ["b"] and len(order) == 4 else (1.0, float(len(order)), 99.0))

    monkeypatch.setattr(acceptance, "_on_group", measure)
    found = {one.subject: one.values for one in acceptance._on_nodes(asked, ["a", "b"], ("compute",), 1)}
    passes = asked.settings.passes
    assert order == [(node, asked.settings.measure_s / passes) for _ in range(passes) for node in ("a", "b")]
    assert found == {"a": tuple(range(1, 2 * passes, 2)), "b": ()}  # medians of turns; one failed turn of b


def test_what_a_node_measured_before_does_not_count_again(asked, monkeypatch):
    old = {"node": "b", "series": [{"kind": "node", "subject": "b", "nodes": ["b"], "measure": "x", "unit": "s"}]}
    (asked.folder / "nodes/b.memory.json").write_text(json.dumps(old))
    monkeypatch.setattr(acceptance, "_step", lambda _: [sys.executable, "-c", "raise SystemExit(3)"])
    (lost,) = acceptance._on_nodes(asked, ["b"], ("memory",), 1)
    assert (lost.measure, lost.failed) == ("memory copy", True)
    assert "3" in lost.reason


def test_the_training_on_more_nodes_keeps_the_batch_of_a_rank_while_the_data_last():
    plan = make_plan()
    local, samples = plan.local_batch, plan.benchmark.data.train_samples
    per_node = plan.point.ranks_per_node
    larger = _sized(plan, 2)
    assert larger.global_batch == local * 2 * per_node
    most = samples // per_node
    assert _sized(plan, most).local_batch == 1
    assert _sized(plan, most + 1).code == NO_BATCH.code
