"""Join Horovod over Gloo as one rank of a Slurm step: `srun ... python -m hpcai.training.join_step PROGRAM ...`.

horovodrun passes each rank its indices in variables; here they are derived from Slurm's.
"""

import os
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

import psutil

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.training.ending import run_and_leave
from hpcai.training.rendezvous import ADDRESS, place_variables

NO_TASK = Message("join_step.no_task", "found no {variable}, expected a task of a step of Slurm")
OTHER_LAYOUT = Message(
    "join_step.other_layout",
    "found task {rank} of {size} as number {local_rank} of node {node} of {nodes}, expected blocks of equally "
    "many tasks on each node; correct the layout of the step",
)


INTERFACE = "HOROVOD_GLOO_IFACE"


def horovod_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Derive Horovod's variables for a rank from Slurm's variables of a task.

    All nodes have equally many ranks, and the ranks of a node are consecutive (``--distribution=block``).

    Raises
    ------
    LaunchError
        If this is not a task of a step, or the tasks have another layout.
    """
    names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_NODES")
    try:
        rank, size, local_rank, node, nodes = (int(environment[name]) for name in names)
        host = environment["SLURMD_NODENAME"]
    except KeyError as error:
        raise LaunchError(at("join_step", NO_TASK(variable=error.args[0]))) from error
    local_size = size // nodes
    if size % nodes or rank != node * local_size + local_rank:
        raise LaunchError(
            at("join_step", OTHER_LAYOUT(rank=rank, size=size, local_rank=local_rank, node=node, nodes=nodes))
        )
    return place_variables(host, (rank, size, local_rank, local_size, node, nodes))


def local_address_towards(address: str) -> str:
    """Return this node's IPv4 address on the route to another; sends nothing.

    Raises
    ------
    LaunchError
        If there is no route.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise LaunchError(
            f"{address}: not reached from {socket.gethostname()} ({error.strerror}), expected a way by IPv4; "
            f"set {INTERFACE} to the network interface that the nodes share"
        ) from error


def interface_towards(address: str) -> str:
    """Return the name of the network interface on the route to an address.

    Raises
    ------
    LaunchError
        If there is no route to it.
    """
    own = local_address_towards(address)
    for interface, addresses in psutil.net_if_addrs().items():
        if any(one.address == own for one in addresses):
            return interface
    raise LaunchError(
        f"{own}: no network interface of {socket.gethostname()} has this address, expected the one that leads to "
        f"{address}; set {INTERFACE} to the network interface that the nodes share"
    )


def main() -> NoReturn:
    """Replace this process by the program, with Horovod's variables."""
    program, variables = sys.argv[1:], horovod_variables(os.environ)
    if not program:
        raise LaunchError("join_step: found no program, expected one to start")
    if ADDRESS not in os.environ:
        raise LaunchError(f"join_step: found no {ADDRESS}, expected to be started by launch_nodes")
    if INTERFACE not in os.environ:
        variables[INTERFACE] = interface_towards(os.environ[ADDRESS])
    os.environ.update(variables)
    os.execvp(program[0], program)  # noqa: S606  replaced on purpose: signals reach the rank itself


if __name__ == "__main__":
    run_and_leave(main)
