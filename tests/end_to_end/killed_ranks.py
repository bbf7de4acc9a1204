"""Ranks that are killed from outside while their run is under way."""

import threading
import time
from contextlib import contextmanager

import psutil

from hpcai.measure.watch import ATTEMPT_VARIABLE


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
def killing_a_rank(folder, sign):
    """Kill the last rank of the run in a folder as soon as it has written the file `sign`, however late its turn comes.

    Yields the process ids of what was killed: one, once it has happened.
    """
    killed, finished = [], threading.Event()
    killer = threading.Thread(target=_kill, args=(folder, sign, killed, finished))
    killer.start()
    try:
        yield killed
    finally:
        finished.set()
        killer.join()


def _kill(folder, sign, killed, finished):
    while not (killed or finished.is_set()):
        for file in folder.glob(f"attempts/*/{sign}"):
            ranks = ranks_of(file.parent.name)
            if file.stat().st_size and ranks:
                ranks[-1].kill()
                killed.append(ranks[-1].pid)
                return
        time.sleep(0.05)
