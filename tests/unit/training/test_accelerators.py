"""One accelerator per rank, in the layouts found at sites."""

import json
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.training.test_jax_engine import called
from unit.training.training_plans import MACHINE

from hpcai.config.machine import ONE_RANK_EACH, Device, Machine
from hpcai.core.accelerators import VISIBLE, Accelerator
from hpcai.core.errors import LaunchError
from hpcai.training import accelerators, engine
from hpcai.training.accelerators import NOT_PROVEN, SHARED, OwnAccelerator, own_accelerator, position_of, require_own
from hpcai.training.collectives.base import Ranks

UUIDS = tuple(f"GPU-{digit * 8}-0000-1111-2222-333333333333" for digit in "abcd")
GPUS = tuple(Accelerator(uuid, "one") for uuid in UUIDS)
PARTS = ("MIG-1", "MIG-2")


Rank = tuple[str, tuple[Accelerator, ...], int]
"""What a rank sees: CUDA_VISIBLE_DEVICES, the driver's list, TensorFlow's devices."""


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """The driver's list of a test is kept for no other."""
    yield
    accelerators._listed_once.cache_clear()


def layout(monkeypatch, *ranks: Rank, configure: Callable[[int], object] = int) -> list[OwnAccelerator]:
    """Return what the ranks of one node find, each after it configured its device."""
    found = []
    for number, (visible, listed, seen) in enumerate(ranks):
        accelerators._listed_once.cache_clear()  # each rank is a process
        devices = [SimpleNamespace(name=str(index)) for index in range(seen)]
        monkeypatch.setattr(accelerators, "find_accelerators", lambda listed=listed: listed)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda _, devices=devices: devices)
        for name in VISIBLE:
            monkeypatch.delenv(name, raising=False)
        if visible:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        configure(number)
        place = Ranks(number, len(ranks), number, len(ranks), 0, 1)
        found.append(own_accelerator(os.environ, place, "n1"))
    return found


def used(rank: Rank, index: str) -> str:
    """Return the accelerator that a library uses which was told an index among those it sees."""
    visible, listed, seen = rank
    return visible.split(",")[int(index)] if visible else list(map(str, range(seen or len(listed) or 1)))[int(index)]


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
    "TensorFlow for processors, all see all": ([("", GPUS[:2], 0)] * 2, UUIDS[:2]),
    "TensorFlow for processors, by Slurm": ([("2,3", (), 0)] * 2, ("", "")),
    "the driver lists others than CUDA": ([("", GPUS[:1], 2)] * 2, ("", "")),
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
    "nothing counts them": ([("", (), 0)] * 2, NOT_PROVEN, {"names": ["0", "0"]}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_shared_accelerator_is_refused(monkeypatch, name) -> None:
    ranks, message, facts = BAD[name]
    with refused(LaunchError, message, **facts):
        require_own(layout(monkeypatch, *ranks))


@pytest.fixture(scope="module")
def jax_indexes() -> dict[str, list[str]]:
    """The device that each rank's engine jax chooses in each layout."""
    found: dict[str, list[str]] = json.loads(called("jax_places.py").splitlines()[-1])
    return found


@pytest.fixture
def tensorflow_indexes(monkeypatch) -> list[str]:
    """The devices that the engine of TensorFlow chooses from now on."""
    chosen: list[str] = []
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    monkeypatch.setattr(engine, "_let_idle_threads_sleep", lambda: None)
    for name in ("set_intra_op_parallelism_threads", "set_inter_op_parallelism_threads"):
        monkeypatch.setattr(tf.config.threading, name, lambda _: None)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda device, _: chosen.append(device.name))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *_: None)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: {})
    return chosen


LAYOUTS = {name: ranks for name, (ranks, *_) in {**GOOD, **BAD}.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_jax_uses_the_accelerator_that_is_told(monkeypatch, jax_indexes, name) -> None:
    ranks = LAYOUTS[name]
    told = [one.name for one in layout(monkeypatch, *ranks)]
    assert [used(rank, index) for rank, index in zip(ranks, jax_indexes[name], strict=True)] == told


@pytest.mark.parametrize("name", [name for name, ranks in LAYOUTS.items() if all(seen for *_, seen in ranks)])
def test_tensorflow_uses_the_accelerator_that_is_told(monkeypatch, tensorflow_indexes, name) -> None:
    ranks, gpu = LAYOUTS[name], Device(kind="gpu")
    found = layout(monkeypatch, *ranks, configure=lambda local_rank: engine.configure_device(gpu, 1, local_rank))
    told = [one.name for one in found]
    assert [used(rank, index) for rank, index in zip(ranks, tensorflow_indexes, strict=True)] == told


def test_the_driver_that_answers_late_proves_nothing(monkeypatch) -> None:
    """It answers after the device was configured: the rank has taken the first one by then."""
    (found,) = layout(
        monkeypatch,
        ("", (), 0),
        configure=lambda local_rank: (
            accelerators.own_place(os.environ, local_rank),
            monkeypatch.setattr(accelerators, "find_accelerators", lambda: GPUS),
        ),
    )
    assert found.uuid == ""


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
