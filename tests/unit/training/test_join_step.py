"""How a Slurm task becomes a Horovod rank."""

import socket
import subprocess
import sys

import psutil
import pytest
from unit.refusals import refused

from hpcai.core.errors import LaunchError
from hpcai.training.join_step import (
    INTERFACE,
    NO_TASK,
    OTHER_LAYOUT,
    horovod_variables,
    interface_towards,
    local_address_towards,
)
from hpcai.training.rendezvous import ADDRESS

NAMES = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_NODES")


def task(*numbers: int, host: str = "n2") -> dict[str, str]:
    return {**dict(zip(NAMES, map(str, numbers), strict=True)), "SLURMD_NODENAME": host}


def test_place_of_a_rank() -> None:
    found = horovod_variables(task(5, 8, 1, 1, 2))
    assert found == {
        "HOROVOD_HOSTNAME": "n2",
        "HOROVOD_RANK": "5",
        "HOROVOD_SIZE": "8",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "4",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    }


@pytest.mark.parametrize("numbers", [(1, 4, 0, 1, 2), (2, 3, 0, 1, 2)])
def test_tasks_that_are_laid_out_otherwise(numbers: tuple[int, ...]) -> None:
    """Cyclic over the nodes; more on one node than on the other."""
    with refused(LaunchError, OTHER_LAYOUT):
        horovod_variables(task(*numbers))


def test_what_is_no_task() -> None:
    with refused(LaunchError, NO_TASK, variable="SLURM_NTASKS"):
        horovod_variables({"SLURM_PROCID": "0"})


def test_the_way_to_this_node_itself() -> None:
    assert local_address_towards("127.0.0.1") == "127.0.0.1"
    assert any(one.address == "127.0.0.1" for one in psutil.net_if_addrs()[interface_towards("127.0.0.1")])


def test_no_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(LaunchError, match=f"10.0.0.9: not reached .*Network is unreachable.*set {INTERFACE}"):
        local_address_towards("10.0.0.9")


def run_task(environment: dict[str, str], *program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hpcai.training.join_step", *program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_program_starts_with_its_place_and_its_interface() -> None:
    show = f"import os; print(os.environ['HOROVOD_RANK'], os.environ['{INTERFACE}'])"
    environment = {**task(1, 2, 0, 1, 2), ADDRESS: "127.0.0.1"}
    found = run_task(environment, sys.executable, "-c", show)
    assert found.stdout.split() == ["1", interface_towards("127.0.0.1")]
    chosen = run_task({**environment, INTERFACE: "ib0"}, sys.executable, "-c", show)
    assert chosen.stdout.split() == ["1", "ib0"]


def test_a_task_without_a_meeting_place_says_so() -> None:
    found = run_task(task(1, 2, 0, 1, 2), "true")
    assert found.returncode == 1
    assert f"hpcai.core.errors.LaunchError: join_step: found no {ADDRESS}" in found.stderr
