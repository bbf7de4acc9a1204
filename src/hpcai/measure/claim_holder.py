"""The process at work on a run: its node, its Slurm job, and whether it is alive."""

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from hpcai.measure.interruption import is_ending
from hpcai.slurm.job import own_job, own_job_id, state_of

Life = Literal["alive", "ended", "gone", "unknown"]
"""gone: the process no longer exists; ended: Slurm reports the end of its job; unknown: only time can tell."""
_ZOMBIE = ("Z", "X")


@dataclass(frozen=True)
class Holder:
    """A process that is or was at work on a run.

    Attributes
    ----------
    host
        Name of its node.
    pid
        Its process id there; 0 if unknown.
    process_started
        Start in seconds after the node's start, which is independent of clock changes; None if unknown.
    slurm_job
        Number of its Slurm job; blank outside of Slurm.
    slurm_restart
        How often Slurm requeued that job.
    started_utc
        When it claimed the run.
    slurm_cluster
        Name of the cluster that numbers its jobs; blank if unknown.
    pid_space
        Namespace of its process id: one boot of one node, or of one container there.
    """

    host: str
    pid: int
    process_started: float | None
    slurm_job: str
    slurm_restart: int
    started_utc: str
    slurm_cluster: str = ""
    pid_space: str = ""

    @property
    def words(self) -> str:
        """Description that completes "waits for"."""
        job = f" (Slurm job {self.slurm_job})" if self.slurm_job else ""
        since = f", running since {self.started_utc}" if self.started_utc else ""
        return f"process {self.pid} on {self.host}{job}{since}"

    @property
    def remedy(self) -> str:
        """Command that ends the process."""
        return f"scancel {self.slurm_job}" if self.slurm_job else f"kill {self.pid}  # on {self.host}"

    def to_json(self) -> dict[str, object]:
        """Return the plain values to store."""
        return asdict(self)


def this_process() -> Holder:
    """Return the facts that others need about this process."""
    job = own_job()
    return Holder(
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=_started_s(os.getpid()),
        slurm_job=own_job_id(),
        # Plain batch scripts have the variable; jobs of Snakemake's Slurm executor do not.
        slurm_restart=job.restarts if job else int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        started_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        slurm_cluster=os.environ.get("SLURM_CLUSTER_NAME", ""),
        pid_space=_pid_space(),
    )


def parse_holder(text: str | bytes) -> Holder:
    """Parse the stored facts about a process; damaged or missing facts become unknown."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    facts = found if isinstance(found, dict) else {}
    started = facts.get("process_started")
    return Holder(
        host=str(facts.get("host", "an unknown node")),
        pid=_whole(facts.get("pid")),
        process_started=float(started) if isinstance(started, int | float) else None,
        slurm_job=str(facts.get("slurm_job", "")),
        slurm_restart=_whole(facts.get("slurm_restart")),
        started_utc=str(facts.get("started_utc", "")),
        slurm_cluster=str(facts.get("slurm_cluster", "")),
        pid_space=str(facts.get("pid_space", "")),
    )


def life_here(holder: Holder) -> Life:
    """Determine from this node's processes whether a holder is alive; unknown if it is or was elsewhere."""
    if holder.host != socket.gethostname() or not holder.pid_space or holder.pid_space != _pid_space():
        return "unknown"
    started = _started_s(holder.pid)
    if started is None:
        # Where /proc hides other users' processes (proc(5), hidepid), the process may still exist.
        return "unknown" if holder.pid and psutil.pid_exists(holder.pid) else "gone"
    return "alive" if started == holder.process_started else "gone"


def life_in_slurm(holder: Holder) -> Life:
    """Determine from its Slurm job whether a holder is alive; unknown without a job or without an answer.

    A job unknown to Slurm may belong to another cluster, so it does not prove an end.
    """
    here = os.environ.get("SLURM_CLUSTER_NAME", "")
    if not holder.slurm_job or (here and holder.slurm_cluster and here != holder.slurm_cluster):
        return "unknown"
    job = state_of(holder.slurm_job)
    if job is None:
        return "unknown"
    if job.has_ended or job.restarts > holder.slurm_restart:
        return "ended"
    # On a lost node a job may stay in the state of ending; a process still at work there shows other signs.
    if is_ending(job):
        return "unknown"
    # If the job is also ours, it does not prove that a process on another of its nodes is alive.
    return "unknown" if holder.slurm_job == own_job_id() else "alive"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _pid_space() -> str:
    """Return the boot id of this node and the process namespace; blank if the kernel hides them."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  no path
    return ""


def _started_s(pid: int) -> float | None:
    """Return the start time of a process [s after boot], 0 if it has ended; None if it is not visible (proc(5))."""
    try:
        # The program name, in brackets, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie: its parent has not yet collected the exit status.
    return 0.0 if fields[0] in _ZOMBIE else int(fields[19]) / os.sysconf("SC_CLK_TCK")
