"""Which nodes are measured together, what becomes of one that fails, and which training fits how many nodes."""

import itertools
import json
import math
import signal
import sys
from types import SimpleNamespace

import pytest
from unit.acceptance_factory import make_measured
from unit.record_factory import make_plan
from unit.refusals import refused

from hpcai.config.acceptance import Acceptance
from hpcai.core.errors import LaunchError
from hpcai.measure import acceptance, acceptance_links, acceptance_nodes, acceptance_training
from hpcai.measure.acceptance import NEEDS_A_JOB, TOO_FEW_NODES, hosts_to_accept
from hpcai.measure.acceptance_links import chosen_rounds, rings_of, tournament
from hpcai.measure.acceptance_nodes import (
    NO_TIME,
    Asked,
    Clock,
    Until,
    _on_nodes,
    _Turns,
    measure_shared,
    turns_that_fit,
)
from hpcai.measure.acceptance_training import MACHINE, NO_BATCH, NODE, _sized, train_for_acceptance
from hpcai.measure.inputs import Inputs
from hpcai.measure.interruption import Interruption, Signals
from hpcai.measure.room import NoRoomError
from hpcai.metrics.acceptance import BANDWIDTH, LATENCY, judge_acceptance, unfit_nodes
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


def turns(at_once, passes, end_s=math.inf):
    return _Turns(at_once, passes, Until(end_s, NO_TIME(used=0.5)))


def once(at_once):
    return turns(at_once, 1)


PROGRAM = """
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
    monkeypatch.setattr(acceptance_nodes, "_step", lambda _: [sys.executable, "-c", PROGRAM])
    monkeypatch.setattr(acceptance_nodes, "LATE_S", 0.0)
    found = list(_on_nodes(asked, ["a", "b", "c", "d"], ("compute", "memory"), once(4)))
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

    monkeypatch.setattr(acceptance_nodes, "_on_group", measure)
    passes = asked.settings.passes
    found = {one.subject: one.values for one in _on_nodes(asked, ["a", "b"], ("compute",), turns(1, passes))}
    assert order == [(node, asked.settings.measure_s / passes) for _ in range(passes) for node in ("a", "b")]
    assert found == {"a": tuple(range(1, 2 * passes, 2)), "b": ()}  # medians of turns; one failed turn of b


def test_what_a_node_measured_before_does_not_count_again(asked, monkeypatch):
    old = {"node": "b", "series": [{"kind": "node", "subject": "b", "nodes": ["b"], "measure": "x", "unit": "s"}]}
    (asked.folder / "nodes/b.memory.json").write_text(json.dumps(old))
    monkeypatch.setattr(acceptance_nodes, "_step", lambda _: [sys.executable, "-c", "raise SystemExit(3)"])
    (lost,) = _on_nodes(asked, ["b"], ("memory",), once(1))
    assert (lost.measure, lost.failed) == ("memory copy", True)
    assert "3" in lost.reason


def rate(node, *values, failed=False):
    fields = {"kind": "node", "subject": node, "nodes": (node,), "measure": "gemm fp32", "unit": "FLOP/s"}
    return Series(**fields, values=values, failed=failed)


def test_a_node_that_failed_has_no_further_turn(asked, monkeypatch):
    order = []

    def measure(_, group, parts, longest_s):
        order.extend(group)
        yield rate(group[0], failed=True) if group == ["b"] else rate(group[0], 1.0)

    monkeypatch.setattr(acceptance_nodes, "_on_group", measure)
    found = {one.subject: one for one in _on_nodes(asked, ["a", "b"], ("compute",), turns(1, 3))}
    assert order == ["a", "b", "a", "a"]
    assert found["b"].failed
    assert len(found["a"].values) == 3


@pytest.fixture
def time_of_turns(monkeypatch):
    """Nodes whose turns take ten seconds each, of which some fail; returns the clock."""
    now = SimpleNamespace(s=0.0, turns=[], broken=set())

    def measure(_, group, parts, longest_s):
        now.s += 10.0
        now.turns.append(tuple(group))
        return [rate(node, failed=True) if node in now.broken else rate(node, 1.0) for node in group]

    monkeypatch.setattr(acceptance_nodes, "_on_group", measure)
    monkeypatch.setattr(acceptance_nodes, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_a_pass_that_lacks_time_for_all_nodes_counts_for_none(asked, time_of_turns):
    found = [*_on_nodes(asked, ["a", "b", "c"], ("compute",), turns(1, 3, 45.0))]
    assert [(one.subject, len(one.values)) for one in found] == [("a", 1), ("b", 1), ("c", 1)]
    none = [*_on_nodes(asked, ["a", "b", "c"], ("compute",), turns(1, 3, 65.0))]
    assert {(one.subject, one.values, one.failed) for one in none} == {(node, (), False) for node in "abc"}
    assert {NO_TIME.find_in(one.reason)["used"] for one in none} == {"50%"}


@pytest.mark.parametrize(
    ("nodes", "left_s", "expected"),
    [
        (3, 1000.0, (1, 6)),  # all of it
        (3, 130.0, (1, 4)),  # fewer passes
        (64, 1000.0, (2, 3)),  # 64 turns of ten seconds, three times, in 1,000 s
        (512, 1000.0, (16, 3)),
        (512, 5.0, (512, 1)),  # no time: all at once
    ],
)
def test_turns_on_shared_storage_keep_to_their_time(nodes, left_s, expected):
    at_once, passes = turns_that_fit(nodes, 6, 10.0, left_s)
    assert (at_once, passes) == expected
    assert passes * -(-nodes // at_once) * 10.0 <= max(left_s, 10.0)


def test_large_machines_measure_shared_storage_on_several_nodes_at_once(asked, time_of_turns):
    hosts = [f"n{number}" for number in range(512)]
    found = [*measure_shared(asked, hosts, Clock(0.0, asked.settings.limit_s))]
    assert {len(one.values) for one in found} == {3}
    assert [one.subject for one in found] == hosts
    assert time_of_turns.s <= 0.65 * asked.settings.limit_s
    small = [*measure_shared(asked, ["a", "b", "c"], Clock(time_of_turns.s, asked.settings.limit_s))]
    assert {len(one.values) for one in small} == {asked.settings.passes}


@pytest.mark.parametrize("broken", [1, 2, 512])
def test_a_broken_node_does_not_tell_how_long_shared_storage_takes(asked, time_of_turns, broken):
    hosts = [f"n{number}" for number in range(512)]
    time_of_turns.broken |= {*hosts[:broken]}
    found = [*measure_shared(asked, hosts, Clock(0.0, asked.settings.limit_s))]
    assert [one.failed for one in found] == [host in time_of_turns.broken for host in hosts]
    assert {len(one.values) for one in found if not one.failed} <= {3}
    assert time_of_turns.s <= 0.65 * asked.settings.limit_s + 20.0


@pytest.fixture
def time_of_links(monkeypatch):
    """Links that take a thousand seconds each and show nothing; returns the clock."""
    now = SimpleNamespace(s=0.0)

    def link(*_):
        now.s += 1000.0
        return []

    monkeypatch.setattr(acceptance_links, "_link", link)
    monkeypatch.setattr(acceptance_links, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_no_round_of_links_begins_too_late(asked, time_of_links):
    found = [*acceptance_links.measure_links(asked, HOSTS[:8], Clock(0.0, 5000.0))]
    assert time_of_links.s <= 0.8 * 5000.0 + 4 * 1000.0  # a round of four pairs may be under way
    assert {(one.values, one.failed, one.tried) for one in found} == {((), False, False)}
    assert {NO_TIME.find_in(one.reason)["used"] for one in found} == {"80%"}
    # Of seven rounds of four pairs two were measured; two rings of four, and the ring of all, have a round each.
    measures = (LATENCY, BANDWIDTH)
    kinds = [("pair", measure) for _ in range(5) for measure in measures]
    kinds += [("ring", f"{measure}, ring of {size}") for size in (4, 8) for measure in measures]
    assert [(one.kind, one.measure) for one in found] == kinds
    assert all(set(one.nodes) == set(HOSTS[:8]) for one in found)
    assert len({(one.subject, one.measure) for one in found}) == len(found)


def test_rounds_that_have_no_time_take_few_rows_on_large_machines(asked, time_of_links):
    hosts = [f"n{number}" for number in range(512)]
    time_of_links.s = 1.0
    found = [*acceptance_links.measure_links(asked, hosts, Clock(0.0, 0.0))]
    assert len(found) == 2 * (asked.settings.pair_rounds + 2)


class Trainings:
    """Trainings of one rank per node, of which the test says what becomes of each attempt."""

    def __init__(self, monkeypatch, *attempts):
        self.attempts, self.places, self.limits_s = [*attempts], [], []
        self.signals = Signals()
        module = acceptance_training
        monkeypatch.setattr(module, "require_training", lambda *_: None)
        monkeypatch.setattr(module, "_sized", lambda plan, _: plan)
        monkeypatch.setattr(module, "Measurement", self._measurement)
        monkeypatch.setattr(module, "_of_record", lambda hosts, *_: module._series(hosts, values=(1.0,)))

    def _measurement(self, runs, *_):
        self.places.append([tuple(node.host for node in run.share.nodes) for run in runs])
        self.limits_s.append(runs[0].plan.limits.run_s)
        return SimpleNamespace(data=None, make=lambda: self._make(runs))

    def _make(self, runs):
        error = self.attempts.pop(0) if self.attempts else None
        if isinstance(error, Interruption) and error.lost_nodes:
            self.signals.give_up(error.reason, error.lost_nodes)
        elif error:
            raise error
        return [None for _ in runs]

    def all(self, asked, hosts, end_s=math.inf):
        means = (asked.inputs, "horovodrun", SimpleNamespace(signals=self.signals))
        until = Until(end_s, NO_TIME(used=0.95))
        found = train_for_acceptance(asked.plan, asked.settings, hosts, means, asked.folder, until)
        return {(one.measure, one.subject): (one.values, one.failed) for one in found}


@pytest.mark.parametrize(
    "error", [Interruption("gone", signal.SIGTERM, ("b",)), NoRoomError({"b": "full"})], ids=["lost", "no room"]
)
def test_the_other_nodes_train_without_one_that_is_lost_or_full(asked, monkeypatch, error):
    trainings = Trainings(monkeypatch, error)
    found = trainings.all(asked, ["a", "b", "c"])
    assert found[NODE, "b"] == ((), True)
    assert {found[NODE, node] for node in "ac"} == {((1.0,), False)}
    assert found[MACHINE, "all nodes"] == ((1.0,), False)
    assert trainings.places == [[("a",), ("b",), ("c",)], [("a",), ("c",)], [("a", "c")]]


def test_a_node_that_is_lost_in_the_training_of_all_is_named(asked, monkeypatch):
    trainings = Trainings(monkeypatch, None, Interruption("gone", signal.SIGTERM, ("c",)))
    found = trainings.all(asked, ["a", "b", "c"])
    assert found[MACHINE, "c"] == ((), True)
    assert found[MACHINE, "all nodes"] == ((1.0,), False)
    assert trainings.places[1:] == [[("a", "b", "c")], [("a", "b")]]


def test_a_signal_ends_the_trainings(asked, monkeypatch):
    with pytest.raises(Interruption, match="cancelled"):
        Trainings(monkeypatch, Interruption("cancelled", signal.SIGTERM)).all(asked, ["a", "b"])


def test_trainings_end_with_the_acceptance(asked, monkeypatch):
    monkeypatch.setattr(acceptance_training, "time", SimpleNamespace(monotonic=lambda: 0.0))
    trainings = Trainings(monkeypatch)
    trainings.all(asked, ["a", "b"], end_s=100.0)
    assert trainings.limits_s == [100.0, 100.0]
    found = trainings.all(asked, ["a", "b"], end_s=10.0)
    assert found == {(NODE, "a"): ((), False), (NODE, "b"): ((), False), (MACHINE, "all nodes"): ((), False)}


def test_nodes_whose_training_has_no_time_are_not_measured_beside_those_that_trained(asked, monkeypatch):
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(acceptance_training, "time", SimpleNamespace(monotonic=lambda: now.s))
    trainings = Trainings(monkeypatch)
    make = trainings._make

    def slow(runs):
        now.s += 100.0
        return make(runs)

    trainings._make = slow
    plan, settings, means = asked.plan, Acceptance(at_once=2), (asked.inputs, "horovodrun", SimpleNamespace())
    until = Until(120.0, NO_TIME(used=0.95))
    found = [*train_for_acceptance(plan, settings, ["a", "b", "c"], means, asked.folder, until)]
    tried = {one.subject: (bool(one.values), one.failed, one.tried) for one in found}
    late = (False, False, False)
    assert tried == {"a": (True, False, True), "b": (True, False, True), "c": late, "all nodes": late}
    measured = make_measured(found, ["a", "b", "c"])
    judged = judge_acceptance(measured, "0" * 64, "x.json")
    assert {one.subject: one.verdict for one in judged.findings if one.measure == NODE}["c"] == "not_measured"
    assert unfit_nodes(found) == set()


def test_unfit_nodes_go_no_further(asked, monkeypatch):
    plan, seen = asked.plan, {}
    monkeypatch.setattr(acceptance, "require_modules", lambda _: None)
    monkeypatch.setattr(acceptance, "hosts_to_accept", lambda _: ("a", "b", "c"))
    monkeypatch.setattr(
        acceptance, "measure_alone", lambda *_: [rate("a", 1.0), rate("b", failed=True), rate("c", 1.0)]
    )
    for stage in ("measure_shared", "measure_links"):
        monkeypatch.setattr(acceptance, stage, lambda _, hosts, __, stage=stage: seen.setdefault(stage, hosts) and [])
    monkeypatch.setattr(
        acceptance, "train_for_acceptance", lambda _, __, hosts, *___: seen.setdefault("training", hosts) and []
    )
    found = acceptance.measure_machine(asked)
    assert found.hosts == ("a", "b", "c")
    assert [one.subject for one in found.series] == ["a", "b", "c"]
    assert seen == dict.fromkeys(("measure_shared", "measure_links", "training"), ("a", "c"))
    assert plan.machine.name == found.machine


def test_the_training_on_more_nodes_keeps_the_batch_of_a_rank_while_the_data_last():
    plan = make_plan()
    local, samples = plan.local_batch, plan.benchmark.data.train_samples
    per_node = plan.point.ranks_per_node
    larger = _sized(plan, 2)
    assert larger.global_batch == local * 2 * per_node
    most = samples // per_node
    assert _sized(plan, most).local_batch == 1
    assert _sized(plan, most + 1).code == NO_BATCH.code
