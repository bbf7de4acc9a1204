"""A Slurm cluster of three nodes on this machine.

Each node has its own host name, address, processes, /dev/shm, /tmp and scratch; the host plays the login node.
One process, head.sh, is PID 1 of a namespace that holds everything else, and it lives as long as a pipe of this
process: however the tests end, the kernel removes the rest. Nodes share the host's file system, kernel and cores, so
page cache and ``boot_id`` are common to all of them.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
from slurm.settings import NODES, node_addresses, write_settings

HERE = Path(__file__).parent
PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "ip", "unshare", "nsenter", "mpirun")
UNSHARE = ("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc")
# munged, slurmstepd and Open MPI put sockets below the folder; their paths are limited to 107 characters.
LONGEST_FOLDER = 55
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db")
LINK_PREFIX = "hpcai"


class ClusterError(Exception):
    """The cluster does not start or does not reach a state in time."""


def find_missing(*, has_accounting: bool = False) -> str:
    """Return what this machine lacks for a cluster, or an empty text."""
    if os.geteuid() != 0:
        return "a Slurm cluster needs root: it makes network namespaces"
    if missing := [
        name for name in (*PROGRAMS, *(ACCOUNTING_PROGRAMS if has_accounting else ())) if shutil.which(name) is None
    ]:
        return f"a Slurm cluster needs {', '.join(missing)}: see tests/install_packages.sh"
    trial = "mount -t tmpfs tmpfs /run && ip link add bridge type bridge && ip link add one type veth peer name two"
    done = subprocess.run([*UNSHARE, "sh", "-c", trial], check=False, capture_output=True, text=True)
    return f"a Slurm cluster needs namespaces, bridge and veth: {done.stderr.strip()}" if done.returncode else ""


class Cluster:
    """Nodes n1 to n3; n3 has two pretended GPUs. Partitions: cpu (default), short (one minute), gpu,
    project (one node, 45 minutes, half of the memory).

    Parameters
    ----------
    folder
        Short path of the cluster's own new folder; also where one looks for its logs.
    has_accounting
        With slurmdbd: the user has the accounts bench (jobs of 30 minutes, 5 at a time) and, by default, teaching
        (jobs of one node); partition project is for bench alone.
    """

    nodes = NODES

    def __init__(self, folder: Path, *, has_accounting: bool = False):
        self.folder, self.has_accounting = folder.resolve(), has_accounting
        self.scratch = self.folder / "scratch"  # another folder on each node
        self._head: subprocess.Popen | None = None
        self._nodes: dict[str, subprocess.Popen] = {}
        self._network = self.link = ""  # of the form 10.213.x, and the host's end of the cable to it

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Environment of Slurm's clients on the host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return kept | {"SLURM_CONF": str(self.folder / "etc/slurm.conf")}

    def start(self) -> None:
        """Start everything; return when all nodes are idle."""
        if len(str(self.folder)) > LONGEST_FOLDER:
            raise ClusterError(f"{self.folder}: longer than {LONGEST_FOLDER} characters, too long for unix sockets")
        (self.folder / "log").mkdir(parents=True)
        try:
            self._start_head()
            write_settings(self.folder, self._network, has_accounting=self.has_accounting)
            self._head.stdin.write(f"{self._network}\n".encode())
            self._head.stdin.flush()
            self.wait_for(self._controller_answers, 60, "slurmctld to answer")
            for node in self.nodes:
                self._start_node(node)
            self.wait_idle()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all jobs, daemons, nodes and links at once."""
        if self._head is None:
            return
        # The kernel would remove the link as well, but a moment later. Afterwards its name may be another cluster's.
        subprocess.run(["ip", "link", "delete", self.link], check=False, capture_output=True)
        self._head.kill()  # unshare takes PID 1 along
        self._head.stdin.close()
        for process in (self._head, *self._nodes.values()):
            process.wait()
        self._head, self._nodes = None, {}

    def run(self, *command, check=True, **options) -> subprocess.CompletedProcess:
        """Run a command on the host as a user of the cluster, by default with its texts captured."""
        texts = {"capture_output": True, "text": True, "env": self.environment} | options
        done = subprocess.run([str(part) for part in command], check=False, **texts)
        if check and done.returncode:
            raise ClusterError(f"{done.args} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def on(self, node: str, *command, check=True, **options) -> subprocess.CompletedProcess:
        """Run a command on a node that is up, past Slurm, as an administrator would."""
        entered = _enter(_first_process(self._nodes[node], depth=2))
        return self.run(*entered, *command, check=check, **options)

    def on_bridge(self, *command) -> subprocess.CompletedProcess:
        """Run a command where the bridge is; its ports have the names of the nodes."""
        return self.run(*_enter(_first_process(self._head, depth=1)), *command)

    def jobs(self) -> dict[str, str]:
        """Return the state, such as RUNNING or TIMEOUT, of each job that Slurm still remembers."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%i %T").stdout.splitlines()
        return dict(line.split() for line in lines)

    def show(self, job: str) -> dict[str, str]:
        """Return what ``scontrol show job`` says, by name."""
        text = self.run("scontrol", "--oneliner", "show", "job", job).stdout
        return dict(re.findall(r"(\S+?)=(.*?)(?=\s+[\w:/]+=|\s*$)", text))

    def states(self) -> dict[str, str]:
        """Return each node's state as sinfo prints it, such as idle or down*."""
        lines = self.run("sinfo", "--noheader", "--Node", "--partition=cpu", "--format=%N %T").stdout.splitlines()
        return dict(line.split() for line in lines)

    def submit(self, script: str, *options) -> str:
        """Submit a shell script with options of sbatch; return the job's number."""
        text = f"#!/bin/bash\n{script}\n"
        return self.run("sbatch", "--parsable", *options, input=text).stdout.strip()

    def crash(self, node: str) -> None:
        """Take a node off the network and end all its processes at once; no one is told."""
        self.on_bridge("ip", "link", "set", node, "down")
        process = self._nodes.pop(node)
        _first_process(process, depth=2).kill()
        process.wait()

    def restart(self, node: str) -> None:
        """Boot a crashed node; its scratch and /tmp are as they were."""
        self._start_node(node)

    def tidy_up(self) -> None:
        """Cancel all jobs, boot crashed nodes and wait until everything is idle."""
        for node in self.nodes:
            if node not in self._nodes or self._nodes[node].poll() is not None:
                self.restart(node)
        self.run("scancel", "--user=root")
        self.wait_idle()

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the cluster, jobs included."""
        roots = [psutil.Process(started.pid) for started in (self._head, *self._nodes.values())]
        return [*roots, *(process for root in roots for process in root.children(recursive=True))]

    def wait_idle(self, timeout_s: float = 60) -> None:
        """Wait until no job is left and all nodes are idle."""
        self.wait_for(self._is_idle, timeout_s, "idle nodes")

    def wait_for(self, predicate, timeout_s: float, what: str):
        """Return the first true value of a function that is called again and again."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if value := predicate():
                return value
            time.sleep(0.2)
        raise ClusterError(f"waited {timeout_s} s for {what}; {self._describe()}")

    def _start_head(self) -> None:
        command = [*UNSHARE, "--kill-child=KILL", HERE / "head.sh", self.folder]
        with (self.folder / "log/head.log").open("wb") as log:
            self._head = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log)
        self._network = self._plug_in(_first_process(self._head, depth=1).pid)

    def _plug_in(self, head: int) -> str:
        """Lay a link from the host to the head on the first free network; return the network."""
        used = {address.rpartition(".")[0] for address in _host_addresses()}
        error = "no free network"
        for number in (number for number in range(256) if f"10.213.{number}" not in used):
            # The name of the link is the lock: of two clusters that try one number, one fails here.
            link = f"{LINK_PREFIX}{number}"
            command = ["ip", "link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", str(head)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode == 0:
                self.link = link
                network = f"10.213.{number}"
                self.run("ip", "address", "add", f"{network}.254/24", "dev", link)
                self.run("ip", "link", "set", link, "up")
                return network
            error = done.stderr.strip()
        raise ClusterError(f"no link to the cluster: {error}")

    def _start_node(self, node: str) -> None:
        address = node_addresses(self._network)[node]
        command = [*_enter(_first_process(self._head, depth=1)), HERE / "node.sh", self.folder, node, address, "host"]
        command += _shared_folders(self.folder)
        with (self.folder / f"log/{node}.log").open("ab") as log:
            self._nodes[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)

    def _controller_answers(self) -> bool:
        return "UP" in self.run("scontrol", "ping", check=False).stdout

    def _is_idle(self) -> bool:
        left = self.run("squeue", "--noheader", check=False)
        return left.returncode == 0 and not left.stdout.strip() and set(self.states().values()) == {"idle"}

    def _describe(self) -> str:
        """Return what a person needs to see why the cluster is not as it should be."""
        commands = (("sinfo", "--Node", "--format=%N %T %E"), ("squeue", "--states=all"))
        told = [self.run(*command, check=False).stdout for command in commands]
        logs = sorted((self.folder / "log").iterdir())
        return "\n".join([*told, *(f"{log.name}: {log.read_text(errors='replace')[-1000:]}" for log in logs)])


def _enter(process: psutil.Process) -> list[str]:
    """Return the command that runs another one in all namespaces of a process."""
    return ["nsenter", "--target", str(process.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]


def _first_process(started: subprocess.Popen, depth: int) -> psutil.Process:
    """Return PID 1 of a namespace: the only child's only child ... of the program that made it."""
    process = psutil.Process(started.pid)
    end = time.monotonic() + 10
    while depth and time.monotonic() < end:
        if children := process.children():
            process, depth = children[0], depth - 1
        else:
            time.sleep(0.01)
    if depth:
        raise ClusterError(f"process {started.pid} ended or started nothing: {started.args}")
    return process


def _host_addresses() -> list[str]:
    entries = (entry for entries in psutil.net_if_addrs().values() for entry in entries)
    return [entry.address for entry in entries if entry.family == socket.AF_INET]


def _shared_folders(folder: Path) -> list[Path]:
    """Return the folders directly below /tmp that all nodes share: the cluster's, the checkout's, Python's."""
    temporary = Path("/tmp")
    needed = (folder, HERE, Path(sys.prefix), Path.cwd())
    return sorted({temporary / path.relative_to(temporary).parts[0] for path in needed if temporary in path.parents})
