"""Free space for staged data is checked on every reached node before any rank starts."""

import re
from pathlib import Path

import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs
from unit.measure.test_supervise import make_pack
from unit.record_factory import make_benchmark, make_plan
from unit.refusals import refused

from hpcai.config.machine import this_node
from hpcai.core.errors import StagingError
from hpcai.data.stage import SPACE_MARGIN_BYTES, room_bytes
from hpcai.data.table import Table
from hpcai.launchers.ranks import Ranks
from hpcai.measure import room
from hpcai.measure.nodes import NodeFacts, NodesReport
from hpcai.measure.room import NO_ROOM, SHARED, NoRoomError, require_room
from hpcai.records.weak import NodeShare

outside = pytest.fixture(autouse=True)(outside_of_jobs)
MIB = 1 << 20
BLOCK_BYTES = 4096
MEMBERS = 6  # of ten MiB
WHOLE_BYTES = int(60 * MIB * 1.02) + SPACE_MARGIN_BYTES
SCRATCH = Path("/scratch")


def pack_of(members: int = MEMBERS):
    member = make_pack().shards[0].members[0]
    sizes = {"content_bytes": 10 * MIB}
    names = [f"train/{number}.tfrecord" for number in range(members)]
    rows = [member.model_copy(update={"name": name, **sizes}) for name in names]
    shard = make_pack().shards[0].model_copy(update={"members": Table.of(type(member), rows)})
    return make_pack(shards=(shard,))


def plan_of(nodes: int, **staging):
    return make_plan(benchmark=make_benchmark(staging=staging), nodes=nodes)


def report_of(*free_bytes, here=(1, 1, 1), names=("n1", "n2", "n3"), problem=""):
    """Answers of nodes with a given amount of free space."""
    about = {"hostname": "x", "cores": 1, "memory_bytes": 1, "page_cache": "dropped", "swept": 0}
    about |= {"swept_names": (), "ended": (), "problem": problem, "block_bytes": BLOCK_BYTES}
    facts = tuple(
        NodeFacts(node=name, free_bytes=free, nodes_here=count, **about)
        for name, free, count in zip(names, free_bytes, here, strict=False)
    )
    return NodesReport(page_cache="dropped", nodes=facts, problem="")


def ask(plan, report, pack=None, starts=None):
    require_room(plan, pack or pack_of(), starts or [Ranks.of(plan)], report, SCRATCH)


@pytest.fixture
def job(monkeypatch):
    enter_job(monkeypatch, Scontrol("n1", "n2", "n3", nodes="all"))


@pytest.mark.usefixtures("job")
def test_each_node_needs_all_of_the_data():
    ask(plan_of(3), report_of(*[WHOLE_BYTES] * 3))
    with pytest.raises(
        StagingError, match=rf"node n2: /scratch: found {WHOLE_BYTES - 1} bytes free, .* {WHOLE_BYTES};"
    ):
        ask(plan_of(3), report_of(WHOLE_BYTES, WHOLE_BYTES - 1, WHOLE_BYTES))


@pytest.mark.usefixtures("job")
def test_of_split_data_each_node_needs_its_part():
    part = int(20 * MIB * 1.02) + SPACE_MARGIN_BYTES
    ask(plan_of(3, partition="split"), report_of(part, part, part))
    with refused(StagingError, NO_ROOM, expected_bytes=part, whose=""):
        ask(plan_of(3, partition="split"), report_of(part, part, part - 1))


@pytest.mark.usefixtures("job")
def test_a_folder_that_nodes_share_needs_the_parts_of_all():
    shared = {"here": (1, 3, 2)}  # as far as each saw when it looked
    ask(plan_of(3), report_of(*[3 * WHOLE_BYTES] * 3, **shared))
    with refused(StagingError, NO_ROOM, expected_bytes=3 * WHOLE_BYTES, whose=SHARED(nodes=3)):
        ask(plan_of(3), report_of(*[3 * WHOLE_BYTES - 1] * 3, **shared))


@pytest.mark.usefixtures("job")
def test_a_node_that_cannot_be_written_has_no_room():
    problem = "/scratch: cannot be written (Read-only file system); correct storage.node_local"
    with pytest.raises(StagingError, match=re.escape(f"node n2: {problem}")):
        ask(plan_of(3), report_of(WHOLE_BYTES, None, WHOLE_BYTES, problem=problem))


@pytest.mark.usefixtures("job")
def test_what_is_read_in_place_needs_no_room():
    ask(plan_of(3, place="none"), report_of(0, 0, 0))
    require_room(plan_of(3), None, [], report_of(0, None), SCRATCH)


@pytest.mark.usefixtures("job")
def test_a_node_that_did_not_answer_is_not_judged():
    ask(plan_of(3), report_of(WHOLE_BYTES))
    ask(plan_of(3), report_of())


def test_outside_of_slurm_this_node_is_judged():
    ask(plan_of(1), report_of(WHOLE_BYTES, names=(this_node(),)))
    with pytest.raises(StagingError, match=f"node {this_node()}: "):
        ask(plan_of(1), report_of(WHOLE_BYTES - 1, names=(this_node(),)))


def test_instances_on_one_node_need_room_side_by_side():
    starts = [Ranks("w", 1, 1, 1, (NodeShare(host=host, cores=(0,)),)) for host in ("n1", "n1", "n2")]
    ask(plan_of(1), report_of(2 * WHOLE_BYTES, WHOLE_BYTES), starts=starts)
    with pytest.raises(StagingError, match=f"node n1: .*at least {2 * WHOLE_BYTES};"):
        ask(plan_of(1), report_of(2 * WHOLE_BYTES - 1, WHOLE_BYTES), starts=starts)


def test_the_files_are_sorted_once_for_all_instances(monkeypatch):
    asked = []
    monkeypatch.setattr(room, "room_bytes", lambda *about: asked.append(about) or room_bytes(*about))
    starts = [Ranks("w", 1, 1, 1, (NodeShare(host=f"n{number}", cores=(0,)),)) for number in range(1, 4)]
    ask(plan_of(1), report_of(*[WHOLE_BYTES] * 3), starts=starts)
    assert len(asked) == 1


def test_each_file_takes_whole_blocks():
    small = make_pack()  # one file of four bytes
    assert room_bytes(small, 2, "whole", 1 << 20) == [int(1.02 * (1 << 20)) + SPACE_MARGIN_BYTES] * 2
    assert room_bytes(small, 2, "split", 1) == [4 + SPACE_MARGIN_BYTES, SPACE_MARGIN_BYTES]


def test_all_nodes_that_lack_room_are_named(job):
    with pytest.raises(NoRoomError) as lacking:
        ask(plan_of(3), report_of(1, 10 * WHOLE_BYTES, 2))
    assert set(lacking.value.nodes) == {"n1", "n3"}
    assert str(lacking.value) == lacking.value.nodes["n1"]
