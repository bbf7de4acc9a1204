"""Signals that end a measurement, such as Slurm's at a time limit: their sender, and the remaining work."""

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hpcai.core.errors import RunInterruptedError
from hpcai.core.messages import Message, at
from hpcai.measure.failure_reasons import lost_node
from hpcai.measure.watch import Ending
from hpcai.slurm.job import SlurmJob, down_nodes, own_job, own_job_id, state_of

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ASK_S = 2.0
"""Longest wait for Slurm's explanation of an interruption: Slurm kills some 30 s after its first signal (KillWait)."""
ENDED_BADLY_ASK_S = 20.0
"""The same, if ranks failed without a signal: a busy controller must not turn a lost node into a result."""
ASK_AGAIN_S = 1.0
logger = logging.getLogger(__name__)
INTERRUPTED = Message(
    "interruption.interrupted",
    "{reason}; nothing is published, and the workflow measures it again when it is started again",
)
FROM_OUTSIDE = Message("interruption.from_outside", "ended from outside by {signal_name}")


class Interruption(BaseException):
    """Unwinds an interrupted measurement; not an Exception, so that no handler in between catches it.

    With ``lost_nodes`` these nodes ended it, not a signal: who measures the nodes themselves may go on without them.
    """

    def __init__(self, reason: str, signal_number: int, lost_nodes: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason, self.signal_number, self.lost_nodes = reason, signal_number, tuple(lost_nodes)


class Signals:
    """Effect of signals on a measurement: the first one ends it, unless the rest is worth completing."""

    def __init__(self) -> None:
        self._noted, self._held_back = False, False
        self._missed: int | None = None
        self._first: Callable[[str], object] = lambda _: None

    def call_first(self, first: Callable[[str], object]) -> None:
        """Register a callback for the reason before anything is ended: afterwards Slurm may leave no time."""
        self._first = first

    def hold_back(self) -> None:
        """From now on only record signals: the remaining work takes seconds and is worth finishing."""
        self._held_back = True

    def go_on(self) -> None:
        """Handle signals again before starting more work; raise Interruption for one that arrived meanwhile."""
        self._held_back, self._noted = False, False
        if self._missed is not None:
            self.interrupt(self._missed)

    def interrupt(self, number: int) -> None:
        """Record a signal, and raise Interruption if it is the first and not held back."""
        if self._noted or self._held_back:
            self._missed = number
            logger.warning("%s: is ending already", signal.Signals(number).name)
            return
        self._noted = True
        job = own_job_id()
        self._unwind(words_of(state_of(job, ASK_S) if job else None, number), number)

    def interrupt_if_job_ends(self, ask_s: float = ENDED_BADLY_ASK_S) -> None:
        """Raise Interruption if Slurm is ending this job: its signal may reach the ranks before this process.

        Call this after a launcher failed, before recording the failure as a result.

        Parameters
        ----------
        ask_s
            Longest wait for Slurm's answer [s].
        """
        job_id = own_job_id()
        job = _ask_patiently(job_id, ask_s) if job_id and not self._noted else None
        if job is not None and is_ending(job):
            self.give_up(words_of(job, signal.SIGTERM))

    def give_up(self, reason: str, lost_nodes: Sequence[str] = ()) -> None:
        """Raise Interruption for a reason without a signal, even while signals are only recorded."""
        if not self._noted:
            self._noted = True
            self._unwind(reason, signal.SIGTERM, lost_nodes)

    def require_job(self, endings: Mapping[Path, Ending]) -> None:
        """Interrupt if the job was interrupted: ranks that Slurm ended with their job, or lost, are no result.

        Parameters
        ----------
        endings
            Endings of the launchers, by the folders of their attempts.
        """
        for ending in endings.values():
            if ending.verdict == "stood_still":
                words = f"the supervisor stood still for {ending.stood_still_s:.0f} s"
                self.give_up(f"{words}: the times of this run mean nothing")
        bad = [attempt for attempt, ending in endings.items() if ending.is_bad]
        lost = next(filter(None, (lost_node(attempt / "output.log") for attempt in bad)), "")
        if lost:
            # Slurm may know more, but this is enough.
            self.interrupt_if_job_ends(ASK_S)
            job = own_job()
            self.give_up(f"a node of the run was lost ({lost})", down_nodes(job.nodes, ASK_S) if job else ())
        elif bad:
            self.interrupt_if_job_ends()

    def require_nodes(self, endings: Iterable[Ending], silent: Sequence[str]) -> None:
        """Interrupt if ranks failed and nodes do not answer: Slurm may not have noticed yet."""
        if silent and any(ending.is_bad for ending in endings):
            names, do = " and ".join(dict.fromkeys(silent)), "do" if len({*silent}) > 1 else "does"
            self.give_up(f"node{'s' * (do == 'do')} {names} {do} not answer any more", silent)

    def _unwind(self, reason: str, number: int, lost_nodes: Sequence[str] = ()) -> NoReturn:
        self._first(reason)
        raise Interruption(reason, number, lost_nodes)


@contextmanager
def ended_by_signals(name: str) -> Iterator[Signals]:
    """Turn signals to this process into an orderly end of its work.

    Parameters
    ----------
    name
        Name of the interrupted work, for the message.

    Raises
    ------
    RunInterruptedError
        After a signal; has the reason and the exit status.
    """
    signals = Signals()
    own_job()  # its state before anything ends it
    with ExitStack() as restoring:
        # Only the main thread may set handlers. A signal that the caller ignores (nohup) stays ignored.
        own = threading.current_thread() is threading.main_thread()
        for number in SIGNALS if own else ():
            before = signal.getsignal(number)
            if before != signal.SIG_IGN:
                signal.signal(number, _handler(signals))
                restoring.callback(signal.signal, number, before)
        try:
            yield signals
        except Interruption as error:
            words = at(name, INTERRUPTED(reason=error.reason))
            raise RunInterruptedError(words, error.signal_number) from None


def _handler(signals: Signals) -> Callable[[int, FrameType | None], None]:
    return lambda number, _: signals.interrupt(number)


def _ask_patiently(job_id: str, ask_s: float) -> SlurmJob | None:
    """Return Slurm's answer about a job; a controller that refuses to answer is asked again until the limit."""
    give_up_s = time.monotonic() + ask_s
    while True:
        job = state_of(job_id, max(give_up_s - time.monotonic(), ASK_AGAIN_S))
        if job is not None or shutil.which("scontrol") is None or time.monotonic() + ASK_AGAIN_S >= give_up_s:
            return job
        time.sleep(ASK_AGAIN_S)


def is_ending(job: SlurmJob) -> bool:
    """Return whether Slurm is about to end, or has ended, a job that was running a moment ago."""
    return job.state not in RUNS


RUNS = ("CONFIGURING", "RESIZING", "RUNNING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED")
"""States of a job that is not being ended (squeue(1), JOB STATE CODES)."""


def words_of(job: SlurmJob | None, number: int) -> str:
    """Describe who ended a run in this job, as far as Slurm knows.

    While a job ends, its state is COMPLETING for all causes; reason and restarts distinguish them.
    """
    if job is None or not is_ending(job):
        return FROM_OUTSIDE(signal_name=signal.Signals(number).name)
    before = own_job()
    put_back = before is not None and job.restarts > before.restarts
    node_failed = job.state == "NODE_FAIL" or job.reason == "NodeDown"
    failed = down_nodes(before.nodes, ASK_S) if before is not None and (put_back or node_failed) else []
    if failed or node_failed:
        words = f"ended by Slurm, because {_nodes(failed)} failed"
    elif job.state == "TIMEOUT" or job.reason == "TimeLimit":
        limit = "" if job.time_limit_s is None else f" of {job.time_limit_s / 60:g} min"
        words = f"ended at Slurm's time limit{limit}"
    elif job.preempted or job.state == "PREEMPTED":
        words = "preempted: the job had to make room for another"
    elif put_back:
        words = "put back into Slurm's queue (requeued)"
    elif job.state in {"COMPLETING", "CANCELLED"}:
        words = "cancelled in Slurm (scancel)"
    else:
        words = f"ended by Slurm ({job.state} {job.reason})".replace(" )", ")")
    return words


def _nodes(failed: list[str]) -> str:
    return f"node{'s' * (len(failed) > 1)} {' and '.join(failed)}" if failed else "a node of the job"
