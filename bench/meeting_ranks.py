"""Ranks of `bench_ranks.py` that meet: each a process, as in a run, and the rendezvous server one more.

Threads of one process would measure their own turns at the interpreter: 100 context switches per rank, more with more
ranks. Ranks are forked before the clock starts, and start together. Prints JSON: processor time of the ranks and of the
server [s], and the number of requests.
"""

import json
import os
import resource
import sys
import time
import urllib.request
from typing import Any

from hpcai.training.collectives.base import Ranks
from hpcai.training.collectives.meeting import Meeting
from hpcai.training.rendezvous import ADDRESS, LOOPBACK, PORT, SECRET, Rendezvous, new_secret

RANKS_PER_NODE = 4


class Asking:
    """Requests of one process: counted, each after a wait."""

    def __init__(self, latency_s: float) -> None:
        self._ask, self._latency_s, self.number = urllib.request.urlopen, latency_s, 0

    def __call__(self, *request: Any, **options: Any) -> Any:  # noqa: ANN401  those of urllib
        """Ask as `urllib.request.urlopen` does."""
        self.number += 1
        time.sleep(self._latency_s)
        return self._ask(*request, **options)


def used_s() -> float:
    """Return the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def serve(secret: str, ranks: int, asked: int, answers: int) -> None:
    """Tell the port of a server, and its processor time once `asked` can be read."""
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect([f"n{node}" for node in range(ranks // RANKS_PER_NODE)], RANKS_PER_NODE)
    start_s = used_s()
    os.write(answers, f"{port}\n".encode())
    os.read(asked, 1)
    os.write(answers, f"{used_s() - start_s}\n".encode())


def join(rank: int, ranks: int, environment: dict[str, str], asking: Asking) -> str:
    """Meet as a rank of an engine; return a line with its processor time and its requests."""
    place = (rank, ranks, rank % RANKS_PER_NODE, RANKS_PER_NODE, rank // RANKS_PER_NODE, ranks // RANKS_PER_NODE)
    expected = [f"10.0.0.1:{other}" for other in range(ranks)]
    start_s = used_s()
    found = Meeting(Ranks(*place), environment, "stub").meet("addresses", expected[rank])
    spent_s = used_s() - start_s
    return json.dumps([spent_s, asking.number, found == expected])


def fork(work: Any) -> int:  # noqa: ANN401  any function without parameters
    """Run a function in a process of its own, which ends with it."""
    process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(0)
    return process


def meet(ranks: int, latency_s: float) -> dict[str, float]:
    """Let all ranks meet; a rank that fails leaves no line."""
    secret = new_secret()
    (asked, ask), (answers, answer) = os.pipe(), os.pipe()
    processes = [fork(lambda: serve(secret, ranks, asked, answer))]
    (gate, opener), (lines, line) = os.pipe(), os.pipe()  # after the server, which must not hold them open
    port = os.read(answers, 100).decode().strip()
    asking = Asking(latency_s)
    urllib.request.urlopen = asking  # type: ignore[assignment]

    def play(rank: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # until nobody holds the other end
        environment = {ADDRESS: LOOPBACK, PORT: port, SECRET: secret}
        os.write(line, f"{join(rank, ranks, environment, asking)}\n".encode())

    processes += [fork(lambda rank=rank: play(rank)) for rank in range(ranks)]  # type: ignore[misc]
    start_s = time.monotonic()
    for end in (opener, line):
        os.close(end)
    with os.fdopen(lines) as stream:
        found = [json.loads(one) for one in stream]
    wall_s = time.monotonic() - start_s
    os.write(ask, b"x")
    server_s = float(os.read(answers, 100))
    for process in processes:
        os.waitpid(process, 0)
    if len(found) < ranks or not all(right for *_, right in found):
        raise SystemExit(f"{sum(right for *_, right in found)} of {ranks} ranks met")
    return {
        "ranks_s": sum(spent_s for spent_s, *_ in found),
        "server_s": server_s,
        "requests": sum(number for _, number, _ in found),
        "wall_s": wall_s,
    }


if __name__ == "__main__":
    print(json.dumps(meet(int(sys.argv[1]), float(sys.argv[2]))))
