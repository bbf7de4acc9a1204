"""Writes what the daemons of the cluster read: slurm.conf, the munge key, host names, pretended GPUs."""

import os
import re
import secrets
import stat
import subprocess
from pathlib import Path

from hpcai.core.machine_lock import PLACE_VARIABLE

HERE = Path(__file__).parent
NODES = ("n1", "n2", "n3")
LEAST_CPUS = 2
TASK_PROLOG = """\
#!/bin/sh
echo export TMPDIR={folder}/scratch
echo export {lock}={folder}/scratch
echo export OMPI_ALLOW_RUN_AS_ROOT=1
echo export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
echo export OMPI_MCA_mpi_yield_when_idle=1
"""
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={network}.1
AccountingStoragePass={folder}/munge/munge.socket
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu"""
DATABASE_CONF = """\
AuthInfo=socket={folder}/munge/munge.socket
DbdHost=head
DbdAddr={network}.1
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=test
StorageLoc=slurm_acct_db
"""


def node_addresses(network: str) -> dict[str, str]:
    """Return the nodes' addresses, as slurm.conf has them."""
    return {node: f"{network}.{11 + index}" for index, node in enumerate(NODES)}


def write_settings(folder: Path, network: str, *, has_accounting: bool = False) -> None:
    """Fill a cluster's new folder for a network of the form 10.213.0."""
    names = ("etc", "munge", "state", "scratch", "dev")
    below = (f"nodes/{node}/{name}" for node in NODES for name in ("spool", "tmp", "scratch"))
    for name in (*names, *below):
        (folder / name).mkdir(parents=True)
    for node in NODES:
        (folder / "nodes" / node / "tmp").chmod(0o1777)
    (folder / "munge/key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge/key").chmod(0o400)
    (folder / "etc/slurm.conf").write_text(
        (HERE / "slurm.conf").read_text().format(**_fill_in(folder, network, has_accounting))
    )
    (folder / "etc/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # the only plugin that asks for nothing
    (folder / "etc/hosts").write_text(_list_hosts(network))
    (folder / "etc/task_prolog").write_text(TASK_PROLOG.format(folder=folder, lock=PLACE_VARIABLE))
    (folder / "etc/task_prolog").chmod(0o755)
    (folder / "etc/gres.conf").write_text(f"NodeName=n3 Name=gpu Type=fake File={folder}/dev/gpu[0-1]\n")
    if has_accounting:
        (folder / "etc/slurmdbd.conf").write_text(DATABASE_CONF.format(folder=folder, network=network))
        (folder / "etc/slurmdbd.conf").chmod(0o600)
    for number in range(2):
        os.mknod(folder / f"dev/gpu{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def _list_hosts(network: str) -> str:
    hosts = {"localhost": "127.0.0.1", "head": f"{network}.1", os.uname().nodename: f"{network}.254"}
    return "".join(f"{address} {name}\n" for name, address in (hosts | node_addresses(network)).items())


def _fill_in(folder: Path, network: str, has_accounting: bool) -> dict[str, object]:
    """Return the values of slurm.conf: the machine's cores as they are, its memory in equal parts."""
    told = subprocess.run(["slurmd", "-C"], check=True, capture_output=True, text=True).stdout
    found = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", told)}
    names = ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
    enough = found["CPUs"] >= LEAST_CPUS
    cpus = found["CPUs"] if enough else LEAST_CPUS
    memory_mib = int(found["RealMemory"] * 0.9) // len(NODES)
    return {
        "folder": folder,
        "network": network,
        "binding": "affinity" if enough else "none",  # there is nothing to bind to on one core
        "hardware": " ".join(f"{name}={found[name]}" for name in names) if enough else f"CPUs={cpus}",
        "memory_mib": memory_mib,
        "project_mib": memory_mib // 2,
        "project_accounts": "bench" if has_accounting else "ALL",
        "accounting": (ACCOUNTING if has_accounting else NO_ACCOUNTING).format(folder=folder, network=network),
        "memory_mib_per_cpu": memory_mib // cpus,
    }
