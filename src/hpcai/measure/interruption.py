"""Signals that end a measurement, such as Slurm's at a time limit: who sent them, and what is still done."""

import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn

from hpcai.core.errors import RunInterruptedError
from hpcai.core.messages import Message, at
from hpcai.slurm.job import SlurmJob, down_nodes, own_job, own_job_id, state_of

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ASK_S = 2.0
"""Longest wait for Slurm's word on an interruption: Slurm kills some 30 s after its first signal (KillWait)."""
ENDED_BADLY_ASK_S = 20.0
"""The same, when ranks ended badly and nobody sent a signal: a busy controller must not turn a lost node into a
result."""
ASK_AGAIN_S = 1.0
logger = logging.getLogger(__name__)
INTERRUPTED = Message(
    "interruption.interrupted",
    "{reason}; nothing is published, and the workflow measures it again when it is started again",
)
FROM_OUTSIDE = Message("interruption.from_outside", "ended from outside by {signal_name}")


class Interruption(BaseException):
    """Unwinds a measurement that was interrupted; no error that something in between could handle."""

    def __init__(self, reason: str, signal_number: int) -> None:
        super().__init__(reason)
        self.reason, self.signal_number = reason, signal_number


class Signals:
    """What signals do to a measurement: the first ends it, unless it has come so far that the rest is worth doing."""

    def __init__(self) -> None:
        self._noted, self._held_back = False, False
        self._missed: int | None = None
        self._first: Callable[[str], object] = lambda _: None

    def call_first(self, first: Callable[[str], object]) -> None:
        """Name what is done with the reason before anything is ended: Slurm may not leave time for it afterwards."""
        self._first = first

    def hold_back(self) -> None:
        """From now on only note signals: what is left takes seconds, and is worth finishing."""
        self._held_back = True

    def go_on(self) -> None:
        """Heed signals again, because something else is started; raise Interruption for one that came meanwhile."""
        self._held_back = False
        if self._missed is not None:
            self.interrupt(self._missed)

    def interrupt(self, number: int) -> None:
        """Take note of a signal, and raise Interruption if it is the first and not held back."""
        if self._noted or self._held_back:
            self._missed = number
            logger.warning("%s: is ending already", signal.Signals(number).name)
            return
        self._noted = True
        job = own_job_id()
        self._unwind(words_of(state_of(job, ASK_S) if job else None, number), number)

    def interrupt_if_job_ends(self, ask_s: float = ENDED_BADLY_ASK_S) -> None:
        """Raise Interruption if Slurm is ending this job: its signal may reach the ranks before this process.

        To be asked when a launcher has ended badly, before that is taken for a result.

        Parameters
        ----------
        ask_s
            Longest wait for Slurm's word [s].
        """
        job_id = own_job_id()
        job = _ask_patiently(job_id, ask_s) if job_id and not self._noted else None
        if job is not None and is_ending(job):
            self.give_up(words_of(job, signal.SIGTERM))

    def give_up(self, reason: str) -> None:
        """Raise Interruption for a reason that came without a signal, also when signals are only noted by now."""
        if not self._noted:
            self._noted = True
            self._unwind(reason, signal.SIGTERM)

    def _unwind(self, reason: str, number: int) -> NoReturn:
        self._first(reason)
        raise Interruption(reason, number)


@contextmanager
def ended_by_signals(name: str) -> Iterator[Signals]:
    """Turn signals that end this process into an orderly end of what it is about.

    Parameters
    ----------
    name
        Of what is interrupted, for the message.

    Raises
    ------
    RunInterruptedError
        If there was a signal: with the reason, and the exit status.
    """
    signals = Signals()
    own_job()  # what it is like before somebody ends it
    with ExitStack() as restoring:
        # Only the main thread may set handlers. A signal that the caller wants ignored (nohup) stays ignored.
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
    """Return what Slurm says of a job; a controller that refuses to answer is asked again for so long."""
    give_up_s = time.monotonic() + ask_s
    while True:
        job = state_of(job_id, max(give_up_s - time.monotonic(), ASK_AGAIN_S))
        if job is not None or shutil.which("scontrol") is None or time.monotonic() + ASK_AGAIN_S >= give_up_s:
            return job
        time.sleep(ASK_AGAIN_S)


def is_ending(job: SlurmJob) -> bool:
    """Tell whether Slurm is about to end a job in which something ran a moment ago, or has ended it."""
    return job.state not in RUNS


RUNS = ("CONFIGURING", "RESIZING", "RUNNING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED")
"""States in which nobody is ending a job (squeue(1), JOB STATE CODES)."""


def words_of(job: SlurmJob | None, number: int) -> str:
    """Say who ended a run that ran in this job, as far as Slurm tells.

    While a job is being ended its state is COMPLETING for all causes; they differ in its reason and its restarts.
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
