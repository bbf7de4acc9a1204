"""Choose each rank's accelerator, and prove that no two ranks use the same one."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

import tensorflow as tf

from hpcai.core.accelerators import Accelerator, find_accelerators, model_of, uuids_of, visible_names
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.training import collective
from hpcai.training.affinity import accelerator_of
from hpcai.training.collectives.base import Ranks

NO_ACCELERATOR = Message(
    "accelerators.none",
    "local rank {local_rank} on {host}: found no accelerator that TensorFlow can use, expected one; `hpcai doctor` "
    "reports what is missing, or correct device.kind of the machine file or the job's request",
)
SHARED = Message(
    "accelerators.shared",
    "{host}: ranks {ranks} have the same accelerator {uuid}, expected one for each rank; correct ranks_per_node of the "
    "machine file or the job's request (--gpus-per-task, --gpu-bind), or allow it: device.shared_by_ranks",
)
NOT_PROVEN = Message(
    "accelerators.not_proven",
    "{host}: found no UUIDs of the accelerators of ranks {ranks}, which see them as {names}, expected proof that each "
    "rank has its own; let nvidia-smi or NVML answer on the nodes (in an image: --nv), let every rank see all "
    "accelerators of its node, or allow sharing: device.shared_by_ranks",
)


@dataclass(frozen=True)
class Place:
    """One rank's accelerator among those that it sees.

    Attributes
    ----------
    index
        As CUDA counts the accelerators that the rank sees.
    name
        Name used in ``CUDA_VISIBLE_DEVICES``, or the index.
    uuid, model
        UUID of the GPU or its MIG instance, and the GPU's model, from the driver; blank: unknown.
    """

    index: int
    name: str
    uuid: str
    model: str


@dataclass(frozen=True)
class OwnAccelerator:
    """The accelerator on which one rank computes.

    Attributes
    ----------
    rank, host
        Rank and its host.
    name
        Name used in ``CUDA_VISIBLE_DEVICES``, or the index.
    uuid
        UUID of the GPU or its MIG instance; blank: unknown.
    """

    rank: int
    host: str
    name: str
    uuid: str


def position_of(local_rank: int, visible: int) -> int:
    """Return the index of a rank's accelerator among those it sees.

    If all ranks of a node see all accelerators, it is the local rank. If each rank sees only its own
    (``--gpus-per-task``, ``--gpu-bind``, cgroups), it is 0. `require_own` verifies the choice.
    """
    return local_rank % visible


def own_place(environment: Mapping[str, str], local_rank: int) -> Place:
    """Return a rank's accelerator: the engines compute on it, and `own_accelerator` tells it to the other ranks.

    If nothing counts the accelerators, every rank takes the first one it sees.
    """
    listed = _listed_once()
    uuids = uuids_of(visible_names(environment), listed)
    # A TensorFlow for processors, used only to read data for another engine, sees none: then use the driver's list.
    visible = len(tf.config.list_physical_devices("GPU")) or len(uuids) or 1
    index = position_of(local_rank, visible)
    # If runtime and driver list different accelerators, the mapping is unknown.
    uuid = uuids[index] if len(uuids) == visible else ""
    return Place(index, accelerator_of(environment, index), uuid, model_of(uuid, listed))


@cache
def _listed_once() -> tuple[Accelerator, ...]:
    """Ask the driver once: another answer after the device was configured would prove another place."""
    return find_accelerators()


def own_accelerator(environment: Mapping[str, str], ranks: Ranks, host: str) -> OwnAccelerator:
    """Return this rank's accelerator, once its device is configured."""
    place = own_place(environment, ranks.local_rank)
    return OwnAccelerator(ranks.rank, host, place.name, place.uuid)


def require_own(found: Iterable[OwnAccelerator]) -> None:
    """Check that no two ranks have the same accelerator.

    UUIDs prove it. Without UUIDs, different indexes prove it if all ranks of a host see the same accelerators.

    Raises
    ------
    LaunchError
        Names host, ranks and UUID of the first shared accelerator, or of the first unidentified one.
    """
    hosts: dict[str, list[OwnAccelerator]] = {}
    for one in found:
        hosts.setdefault(one.host, []).append(one)
    for host, ranks in hosts.items():
        _require_own_on(host, ranks)


def _require_own_on(host: str, ranks: Sequence[OwnAccelerator]) -> None:
    known = [one.uuid for one in ranks if one.uuid]
    for uuid, times in Counter(known).items():
        if times > 1:
            sharing = [one.rank for one in ranks if one.uuid == uuid]
            raise LaunchError(SHARED(host=host, ranks=sharing, uuid=uuid))
    unknown = [one for one in ranks if not one.uuid]
    names = [one.name for one in unknown]
    if unknown and (known or len(set(names)) < len(names)):
        raise LaunchError(NOT_PROVEN(host=host, ranks=[one.rank for one in unknown], names=names))


def gather_accelerators(own: OwnAccelerator) -> list[OwnAccelerator]:
    """Return the accelerators of all ranks, in rank order; all ranks must call this together.

    Without the accelerators: NCCL would fail with its own error if two ranks shared one.
    """
    return [OwnAccelerator(**json.loads(told)) for told in collective.tell(json.dumps(asdict(own)), "accelerators")]
