"""How ranks meet before they can exchange tensors: their indices, and text published at the launcher's rendezvous."""

import json
import socket
import time
import urllib.request
from collections.abc import Mapping, MutableMapping
from urllib.error import HTTPError

from hpcai.core.errors import LaunchError
from hpcai.training.collectives.base import Ranks
from hpcai.training.join_step import local_address_towards
from hpcai.training.rendezvous import ADDRESS, EVERY, PLACES, PORT, SECRET

MEETING_LIMIT_S = 120.0
LOOK_S = 0.02
LOOK_PER_RANK_S = 0.001
"""Time between two questions of a rank, per rank: the server gets at most about 1,000 questions per second."""


def places_of(environment: Mapping[str, str], engine: str) -> Ranks:
    """Return this rank's indices from the launcher's variables, which are the same for every engine.

    Raises
    ------
    LaunchError
        If the launcher sets none, like mpirun.
    """
    try:
        return Ranks(*(int(environment[name]) for name in PLACES))
    except KeyError as error:
        raise LaunchError(
            f"engine {engine}: found no {error.args[0]}, expected a launcher with a rendezvous; "
            "use the launcher horovodrun or spawn"
        ) from error


class Meeting:
    """The rendezvous of a launch, where the ranks of an engine publish text for each other."""

    def __init__(self, ranks: Ranks, environment: MutableMapping[str, str], engine: str) -> None:
        self._ranks, self._engine = ranks, engine
        self._url = f"http://{environment[ADDRESS]}:{environment[PORT]}/{environment.pop(SECRET, '')}"

    def meet(self, scope: str, own: str) -> list[str]:
        """Publish this rank's text and return those of all ranks in rank order.

        Raises
        ------
        LaunchError
            If a rank does not arrive within `MEETING_LIMIT_S`.
        """
        base = f"{self._url}/{self._engine}_{scope}"
        request = urllib.request.Request(f"{base}/{self._ranks.rank}", own.encode(), method="PUT")  # noqa: S310  http
        urllib.request.urlopen(request, timeout=MEETING_LIMIT_S).close()  # noqa: S310
        limit_s = time.monotonic() + MEETING_LIMIT_S
        look_s = max(LOOK_S, LOOK_PER_RANK_S * self._ranks.size)
        while True:
            try:
                with urllib.request.urlopen(f"{base}/{EVERY}{self._ranks.size}", timeout=MEETING_LIMIT_S) as answer:  # noqa: S310
                    found: list[str] = json.load(answer)
                    return found
            except HTTPError as error:
                if time.monotonic() > limit_s:
                    raise LaunchError(
                        f"engine {self._engine}: rank {error.read().decode()} of {self._ranks.size} did not arrive "
                        f"within {MEETING_LIMIT_S:g} s; see its output"
                    ) from error
                time.sleep(look_s)


def free_address(environment: Mapping[str, str]) -> str:
    """Return this node's address on the route to the rendezvous, with a currently free port."""
    host = local_address_towards(environment[ADDRESS])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind((host, 0))
        return f"{host}:{server.getsockname()[1]}"
