"""What happens to ranks from outside while their run is under way: signals, and a disk that fills up."""

import signal
import threading
import time
from contextlib import contextmanager, suppress

import psutil

from hpcai.measure.watch import ATTEMPT_VARIABLE

AHEAD_S = 0.5
"""A pause is so much longer than what rank 0, which tells the times, has to see of it: the signal may find the other
rank a step, or an epoch's end, ahead of it."""


def ranks_of(attempt):
    """Return the processes of an attempt's ranks, the oldest first."""
    return sorted((one for one in psutil.process_iter() if _is_rank(one, attempt)), key=lambda one: one.pid)


def _is_rank(process, attempt):
    try:
        marked = process.environ().get(ATTEMPT_VARIABLE) == attempt
        return marked and process.cmdline()[1:3] == ["-m", "hpcai.training"]
    except psutil.Error:
        return False


@contextmanager
def hitting_a_rank(folder, sign, number=signal.SIGKILL, resumed_after_s=None):
    """Send a signal to the last rank of the run in a folder as soon as the file `sign` is there, however late.

    Yields times [s since the epoch]: of the signal, once it was sent, and of the rank's end. What was stopped can go on
    after a while; then its end is not waited for.
    """
    hit, finished = [], threading.Event()
    hitter = threading.Thread(target=_hit, args=(folder, sign, number, hit, finished, resumed_after_s))
    hitter.start()
    try:
        yield hit
    finally:
        finished.set()
        hitter.join()


def _hit(folder, sign, number, hit, finished, resumed_after_s):
    while not (hit or finished.is_set()):
        for file in folder.glob(f"attempts/*/{sign}"):
            ranks = ranks_of(file.parent.name)
            if file.stat().st_size and ranks:
                ranks[-1].send_signal(number)
                hit.append(time.time())
                if resumed_after_s is not None:
                    time.sleep(resumed_after_s)
                    ranks[-1].resume()
                else:
                    _await_end(ranks[-1], hit, finished)
                return
        time.sleep(0.05)


def _await_end(rank, hit, finished):
    while not finished.is_set():
        with suppress(psutil.NoSuchProcess):
            if rank.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
                continue
        hit.append(time.time())
        return


@contextmanager
def filling_up(disk, folder, sign):
    """Fill the file system of a folder up as soon as the file `sign` of the run in a folder is there."""
    finished = threading.Event()
    filler = threading.Thread(target=_fill_up, args=(disk, folder, sign, finished))
    filler.start()
    try:
        yield
    finally:
        finished.set()
        filler.join()


def _fill_up(disk, folder, sign, finished):
    while not finished.is_set():
        if any(file.stat().st_size for file in folder.glob(f"attempts/*/{sign}")):
            with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
                while file.write(bytes(4096)) == 4096:
                    pass
            return
        time.sleep(0.05)
