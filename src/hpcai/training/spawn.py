"""Our own launcher: `python -m hpcai.training.spawn -np 2 PROGRAM ...`; needs neither Horovod nor MPI.

With ``--hosts`` instead of ``-np`` a Slurm step starts the ranks (:mod:`hpcai.training.launch_nodes`).

Each rank gets its indices in the variables that horovodrun uses, and meets the others at the rendezvous in this
process. Output lines are prefixed with their rank. The first rank to fail ends all.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import IO

from hpcai.core.programs import END_LIMIT_S, shell_status
from hpcai.training import launch_nodes
from hpcai.training.ending import leave, run_and_leave
from hpcai.training.rendezvous import ADDRESS, LOOPBACK, PORT, SECRET, Rendezvous, new_secret, place_variables

LOOK_S = 0.02


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.training.spawn", description="Ranks on this node.")
    parser.add_argument("-np", type=int, required=True, dest="ranks", help="how many ranks")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program of each rank with its arguments")
    return parser.parse_args(arguments)


def main() -> None:
    """Start all ranks; exit with the status of the first that failed, or 0."""
    if "--hosts" in sys.argv[1:2]:
        launch_nodes.main()
    options = parse_arguments()
    secret, host = new_secret(), socket.gethostname()
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect([host], options.ranks)
    meeting = {ADDRESS: LOOPBACK, PORT: str(port), SECRET: secret}
    # Exit by `leave`: threads may wait for ranks, or for their descendants that keep the output open.
    places = [place_of(rank, options.ranks, host) for rank in range(options.ranks)]
    leave(run_ranks(options.program, [{**meeting, **place} for place in places]))


def place_of(rank: int, ranks: int, host: str) -> dict[str, str]:
    """Return a rank's variables, with all ranks on one node."""
    return {
        **place_variables(host, (rank, ranks, rank, ranks, 0, 1)),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
    }


def run_ranks(program: Sequence[str], variables: Sequence[dict[str, str]]) -> int:
    """Run one process per set of variables to its end; return the exit status of the first that failed, else 0.

    On a signal, end all of them. As in a shell, a process ended by a signal counts as 128 + signal.
    """
    told: list[int] = []

    def tell(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    processes = [
        subprocess.Popen(program, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for own in variables
    ]
    pumps = [pump for rank, process in enumerate(processes) for pump in _start_pumps(rank, process)]
    failed = _wait(processes, told)
    _end(processes)
    for pump in pumps:
        pump.join(timeout=1.0)
    if told:
        return 128 + told[0]
    if failed is None:
        return 0
    status = shell_status(processes[failed].returncode)
    print(f"spawn: rank {failed} was the first to fail, exit status {status}", file=sys.stderr, flush=True)
    return status


def _wait(processes: Sequence["subprocess.Popen[bytes]"], told: Sequence[int]) -> int | None:
    """Return the rank that failed first; None when all have ended successfully, or on a signal."""
    while not told:
        ended = [process.poll() for process in processes]
        failed = next((rank for rank, status in enumerate(ended) if status), None)
        if failed is not None or None not in ended:
            return failed
        time.sleep(LOOK_S)
    return None


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End what is still running: SIGTERM first, then SIGKILL."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    limit_s = time.monotonic() + END_LIMIT_S
    for process in running:
        try:
            process.wait(max(limit_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start_pumps(rank: int, process: "subprocess.Popen[bytes]") -> list[threading.Thread]:
    """Forward a rank's output in whole lines, prefixed as by horovodrun."""
    pumps = []
    for source, sink, name in ((process.stdout, sys.stdout, "stdout"), (process.stderr, sys.stderr, "stderr")):
        assert source is not None
        pumps.append(threading.Thread(target=_pump, args=(source, sink.buffer, f"[{rank}]<{name}>:"), daemon=True))
        pumps[-1].start()
    return pumps


def _pump(source: IO[bytes], sink: IO[bytes], mark: str) -> None:
    for line in source:
        sink.write(mark.encode() + (line if line.endswith(b"\n") else line + b"\n"))
        sink.flush()


if __name__ == "__main__":
    run_and_leave(main)
