"""Ranks of `bench_ranks.py` that meet: each a process, as in a run, and the rendezvous server one more.

Threads of one process would measure their own turns at the interpreter: 100 context switches per rank, more with more
ranks. All are forked before they meet, and start together. Prints JSON: processor time of the ranks and of the server
[s].
"""

import json
import os
import sys
import time
import urllib.request
from typing import Any

from hpcai.training.collectives.base import Ranks
from hpcai.training.collectives.meeting import Meeting
from hpcai.training.rendezvous import ADDRESS, LOOPBACK, PORT, SECRET, Rendezvous, new_secret

RANKS_PER_NODE = 4


def ask_late(latency_s: float) -> None:
    """Let each request of this process, and of its children, wait before it is sent."""
    ask = urllib.request.urlopen

    def late(*request: Any, **options: Any) -> Any:  # noqa: ANN401  those of urllib
        time.sleep(latency_s)
        return ask(*request, **options)

    urllib.request.urlopen = late


def serve(secret: str, ranks: int, asked: int, answers: int) -> None:
    """Tell the port of a server, and its processor time once `asked` can be read."""
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect([f"n{node}" for node in range(ranks // RANKS_PER_NODE)], RANKS_PER_NODE)
    start_s = time.process_time()
    os.write(answers, f"{port}\n".encode())
    os.read(asked, 1)
    os.write(answers, f"{time.process_time() - start_s}\n".encode())


def join(rank: int, ranks: int, environment: dict[str, str]) -> str:
    """Meet as a rank of an engine; return a line with its processor time, and whether it found all others."""
    place = (rank, ranks, rank % RANKS_PER_NODE, RANKS_PER_NODE, rank // RANKS_PER_NODE, ranks // RANKS_PER_NODE)
    expected = [f"10.0.0.1:{other}" for other in range(ranks)]
    start_s = time.process_time()
    found = Meeting(Ranks(*place), environment, "stub").meet("addresses", expected[rank])
    spent_s = time.process_time() - start_s
    return json.dumps([spent_s, found == expected])


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
    ask_late(latency_s)

    def play(rank: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # until nobody holds the other end
        environment = {ADDRESS: LOOPBACK, PORT: port, SECRET: secret}
        os.write(line, f"{join(rank, ranks, environment)}\n".encode())

    processes += [fork(lambda rank=rank: play(rank)) for rank in range(ranks)]  # type: ignore[misc]
    for end in (opener, line):
        os.close(end)
    with os.fdopen(lines) as stream:
        found = [json.loads(one) for one in stream]
    os.write(ask, b"x")
    server_s = float(os.read(answers, 100))
    for process in processes:
        os.waitpid(process, 0)
    if len(found) < ranks or not all(right for _, right in found):
        raise SystemExit(f"{sum(right for _, right in found)} of {ranks} ranks met")
    return {"ranks_s": sum(spent_s for spent_s, _ in found), "server_s": server_s}


if __name__ == "__main__":
    print(json.dumps(meet(int(sys.argv[1]), float(sys.argv[2]))))
