"""One accelerator per rank, in the layouts found at sites."""

import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.training.training_plans import MACHINE

from hpcai.config.machine import ONE_RANK_EACH, Machine
from hpcai.core.accelerators import Accelerator
from hpcai.core.errors import LaunchError
from hpcai.training import accelerators
from hpcai.training.accelerators import NOT_PROVEN, SHARED, OwnAccelerator, own_accelerator, position_of, require_own
from hpcai.training.collectives.base import Ranks

UUIDS = tuple(f"GPU-{digit * 8}-0000-1111-2222-333333333333" for digit in "abcd")
GPUS = tuple(Accelerator(uuid, "one") for uuid in UUIDS)
PARTS = ("MIG-1", "MIG-2")


def layout(monkeypatch, *ranks: tuple[str, tuple[Accelerator, ...], int]) -> list[OwnAccelerator]:
    """Return what the ranks of one node find: CUDA_VISIBLE_DEVICES, the driver's list, TensorFlow's devices."""
    found = []
    for number, (visible, listed, seen) in enumerate(ranks):
        monkeypatch.setattr(accelerators, "find_accelerators", lambda listed=listed: listed)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda _, seen=seen: [None] * seen)
        environment = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
        place = Ranks(number, len(ranks), number, len(ranks), 0, 1)
        found.append(own_accelerator(environment, place, "n1"))
    return found


GOOD = {
    "all see all": ([("", GPUS[:2], 2)] * 2, UUIDS[:2]),
    "all see all, by Slurm": ([("2,3", GPUS, 2)] * 2, UUIDS[2:]),
    "one per task, by the variable": ([("0", GPUS, 1), ("1", GPUS, 1)], UUIDS[:2]),
    "one per task, by cgroups": ([("0", GPUS[:1], 1), ("0", GPUS[1:2], 1)], UUIDS[:2]),
    "one per task, by UUID": ([(UUIDS[3], (), 1), (UUIDS[1], (), 1)], (UUIDS[3], UUIDS[1])),
    "two per task": ([("0,1", GPUS, 2), ("2,3", GPUS, 2)], (UUIDS[0], UUIDS[3])),
    "MIG by its names": (
        [(part, (Accelerator(UUIDS[0], "one", PARTS),), 1) for part in PARTS],
        PARTS,
    ),
    "MIG by cgroups": ([("0", (Accelerator(UUIDS[0], "one", (part,)),), 1) for part in PARTS], PARTS),
    "no driver answers, all see all": ([("", (), 2)] * 2, ("", "")),
    "no driver answers, one per task by the variable": ([("0", (), 1), ("1", (), 1)], ("", "")),
}


@pytest.mark.parametrize("name", GOOD)
def test_every_rank_has_its_own(monkeypatch, name) -> None:
    ranks, expected = GOOD[name]
    found = layout(monkeypatch, *ranks)
    assert [one.uuid for one in found] == list(expected)
    require_own(found)


BAD = {
    "the same for all tasks": ([("0", GPUS[:1], 1)] * 2, SHARED, {"ranks": [0, 1], "uuid": UUIDS[0], "host": "n1"}),
    "the same by other names": ([("1", GPUS, 1), (UUIDS[1], GPUS, 1)], SHARED, {"ranks": [0, 1], "uuid": UUIDS[1]}),
    "more ranks than accelerators": ([("", GPUS[:2], 2)] * 3, SHARED, {"ranks": [0, 2], "uuid": UUIDS[0]}),
    "the same MIG instance": ([(PARTS[0], (), 1)] * 2, SHARED, {"ranks": [0, 1], "uuid": PARTS[0]}),
    "MIG by index": ([("0", (Accelerator(UUIDS[0], "one", PARTS),), 1)] * 2, NOT_PROVEN, {"names": ["0", "0"]}),
    "cgroups, and no driver answers": ([("0", (), 1)] * 2, NOT_PROVEN, {"ranks": [0, 1], "host": "n1"}),
    "one rank of two knows": ([("0", GPUS, 1), ("1", (), 1)], NOT_PROVEN, {"ranks": [1], "names": ["1"]}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_shared_accelerator_is_refused(monkeypatch, name) -> None:
    ranks, message, facts = BAD[name]
    with refused(LaunchError, message, **facts):
        require_own(layout(monkeypatch, *ranks))


def test_equal_indexes_on_other_nodes_are_others() -> None:
    require_own([OwnAccelerator(rank, host, "0", "") for rank, host in enumerate(("n1", "n2"))])
    assert [position_of(rank, 1) for rank in range(3)] == [0, 0, 0]


def test_sharing_needs_a_permission_that_plans_without_it_do_not_show() -> None:
    gpu = {**MACHINE, "accelerators_per_node": 1}
    with pytest.raises(ValueError, match=ONE_RANK_EACH.pattern):
        Machine.model_validate({**gpu, "device": {"kind": "gpu"}})
    allowed = Machine.model_validate({**gpu, "device": {"kind": "gpu", "shared_by_ranks": True}})
    assert Machine.model_validate_json(allowed.model_dump_json()) == allowed
    assert [allowed.devices_of(2, ranks) for ranks in (1, 2, 8)] == [1, 2, 2]
    assert "shared_by_ranks" not in Machine.model_validate(MACHINE).model_dump_json()
