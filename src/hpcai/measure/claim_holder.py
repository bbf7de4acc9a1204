"""Who is at work on a run: the process, its node and its Slurm job, and whether it lives."""

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
"""gone: its process is no more; ended: Slurm says so of its job; unknown: only time can tell."""
_ZOMBIE = ("Z", "X")


@dataclass(frozen=True)
class Holder:
    """A process that is or was at work on a run.

    Attributes
    ----------
    host
        Name of its node.
    pid
        Its number there; 0 if not known.
    process_started
        When it started, in seconds after its node's start, which no change of a clock moves; None: not known.
    slurm_job
        Number of its Slurm job; blank outside of Slurm.
    slurm_restart
        How often that job had been put back into the queue.
    started_utc
        When it took up the run.
    slurm_cluster
        Name of the cluster that counts its jobs; blank if not known.
    pid_space
        Which processes its number is counted among: those of one start of one node, or of one container there.
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
        """Who it is, in words that complete "waits for"."""
        job = f" (Slurm job {self.slurm_job})" if self.slurm_job else ""
        since = f", running since {self.started_utc}" if self.started_utc else ""
        return f"process {self.pid} on {self.host}{job}{since}"

    @property
    def remedy(self) -> str:
        """The command that ends it."""
        return f"scancel {self.slurm_job}" if self.slurm_job else f"kill {self.pid}  # on {self.host}"

    def to_json(self) -> dict[str, object]:
        """Return what is written down about it."""
        return asdict(self)


def this_process() -> Holder:
    """Return what others have to know of this process."""
    job = own_job()
    return Holder(
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=_started_s(os.getpid()),
        slurm_job=own_job_id(),
        # The variable is there in plain batch scripts, but not below Snakemake's Slurm executor.
        slurm_restart=job.restarts if job else int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        started_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        slurm_cluster=os.environ.get("SLURM_CLUSTER_NAME", ""),
        pid_space=_pid_space(),
    )


def parse_holder(text: str | bytes) -> Holder:
    """Read what was written down about a process; what is damaged or missing is not known."""
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
    """Tell from the processes of this node whether a holder lives; unknown if it is or was elsewhere."""
    if holder.host != socket.gethostname() or not holder.pid_space or holder.pid_space != _pid_space():
        return "unknown"
    started = _started_s(holder.pid)
    if started is None:
        # Where /proc hides the processes of others (proc(5), hidepid), one may be there all the same.
        return "unknown" if holder.pid and psutil.pid_exists(holder.pid) else "gone"
    return "alive" if started == holder.process_started else "gone"


def life_in_slurm(holder: Holder) -> Life:
    """Tell from its Slurm job whether a holder lives; unknown if it had none, or Slurm does not tell.

    A job that Slurm does not know may be one of another cluster: that is not a proof of an end.
    """
    here = os.environ.get("SLURM_CLUSTER_NAME", "")
    if not holder.slurm_job or (here and holder.slurm_cluster and here != holder.slurm_cluster):
        return "unknown"
    job = state_of(holder.slurm_job)
    if job is None:
        return "unknown"
    if job.has_ended or job.restarts > holder.slurm_restart:
        return "ended"
    # On a node that is lost a job may be ending for ever: whoever still works there shows it by other signs.
    if is_ending(job):
        return "unknown"
    # A job that is at work here as well says nothing of a process on another of its nodes.
    return "unknown" if holder.slurm_job == own_job_id() else "alive"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _pid_space() -> str:
    """Return the start of this node and the set of processes that this one sees; blank if the kernel hides it."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  no path
    return ""


def _started_s(pid: int) -> float | None:
    """Return when a process started [s after the node's start], 0 if it has ended; None if none is seen (proc(5))."""
    try:
        # The name of the program, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    # Nobody may have asked yet how it ended.
    return 0.0 if fields[0] in _ZOMBIE else int(fields[19]) / os.sysconf("SC_CLK_TCK")
