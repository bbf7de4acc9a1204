"""Start ranks on the nodes of a Slurm job: `python -m hpcai.training.launch_nodes --hosts a,b ... -- srun ...`.

horovodrun needs ssh between nodes, and `spawn` starts ranks only on its own node. For both, one Slurm step starts all
ranks here; they meet at a rendezvous server in this process, which lives as long as the step.
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import psutil

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.core.programs import END_LIMIT_S, shell_status
from hpcai.training.ending import leave, run_and_leave
from hpcai.training.join_step import INTERFACE, local_address_towards
from hpcai.training.rendezvous import ADDRESS, PORT, SECRET, Rendezvous, new_secret

UNKNOWN_PLACE = Message(
    "launch_nodes.unknown_place",
    "Slurm does not report its address ({reason}); set {variable} to the network interface that the nodes share",
)
NO_INTERFACE = Message(
    "launch_nodes.no_interface", "no such network interface with an IPv4 address on {host}, expected one of {known}"
)

GLOO_TIMEOUT_S = 120
"""Time for ranks to meet [s]; Horovod's 30 s are short if many ranks start from one shared file system at once."""
ANSWER_LIMIT_S = 60
LOOK_S = 1.0


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.training.launch_nodes", description="Ranks over nodes.")
    parser.add_argument("--gloo", action="store_true", help="accepted, because Horovod's own launcher has it")
    parser.add_argument("--hosts", required=True, help="nodes of the job, separated by commas, in the order of ranks")
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("step", nargs="+", help="the step's command with its options and the program, after --")
    return parser.parse_args(arguments)


def main() -> NoReturn:
    """Start the rendezvous and the step; exit with the step's status."""
    options = parse_arguments()
    hosts = options.hosts.split(",")
    address, secret = own_address(hosts), new_secret()
    server = Rendezvous(address, secret)
    port = server.start()
    server.expect(hosts, options.ranks_per_node)
    meeting = {
        ADDRESS: address,
        PORT: str(port),
        SECRET: secret,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    defaults = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_S)}
    # Exit by `leave`: the server's threads may wait for ranks that no longer exist.
    leave(run_step(options.step, {**defaults, **os.environ, **meeting}))


def own_address(hosts: Sequence[str]) -> str:
    """Return the address at which the other nodes reach this one.

    Uses the interface named by ``HOROVOD_GLOO_IFACE``, else the one on the route to another node of the run.

    Raises
    ------
    LaunchError
        If there is no such interface or no route.
    """
    interface = os.environ.get(INTERFACE)
    if not interface:
        return local_address_towards(address_of(hosts[-1]))
    found = psutil.net_if_addrs().get(interface, [])
    own = next((one.address for one in found if one.family == socket.AF_INET), None)
    if own is None:
        raise LaunchError(
            at(
                f"{INTERFACE}={interface}",
                NO_INTERFACE(host=socket.gethostname(), known=", ".join(sorted(psutil.net_if_addrs()))),
            )
        )
    return own


def address_of(node: str) -> str:
    """Return the address at which Slurm reaches a node.

    Raises
    ------
    LaunchError
        If Slurm reports none, or a name without a known address.
    """
    command = ["scontrol", "show", "node", "--oneliner", node]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ANSWER_LIMIT_S)
        found = re.search(r"\sNodeAddr=(\S+)", done.stdout)
        return socket.gethostbyname(found[1] if found else node)
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchError(at(f"node {node}", UNKNOWN_PLACE(reason=error, variable=INTERFACE))) from error


def run_step(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a step to its end and return its exit status; on a signal, end all its ranks on all nodes first."""
    told: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def tell(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        if process is not None:
            process.send_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    process = subprocess.Popen(command, env=environment)
    if told:  # the signal came between the two lines above
        process.send_signal(signal.SIGTERM)
    while process.poll() is None and not told:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=LOOK_S)
    if not told:
        return shell_status(process.returncode)
    try:
        process.wait(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"launch_nodes: the step did not end within {END_LIMIT_S:g} s and is killed", file=sys.stderr)
        process.kill()
        process.wait()
    return 128 + told[0]


if __name__ == "__main__":
    run_and_leave(main)
