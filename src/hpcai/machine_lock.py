"""One timed thing at a time on this node: what runs beside a measurement is in its numbers."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcai.disturbance import Disturbance, disturbance_of, look, use_since


@dataclass
class Watch:
    """What others took of this node while it was measured, as far as this process and its children were those who did.

    Empty until the measurement has ended.
    """

    disturbance: tuple[Disturbance, ...] = ()


@contextmanager
def machine_to_itself(say: Callable[[str], object]) -> Iterator[Watch]:
    """Wait until nothing else is timed on this node by this user, whichever workflow started it.

    The lock goes with the process that holds it, however that ends. Taken twice by one process it would wait for ever.

    Parameters
    ----------
    say
        Is told once, in words, if there is something to wait for.
    """
    with (Path(tempfile.gettempdir()) / f"hpcai-{os.getuid()}.run").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waits until another run or measurement on this machine has ended")
            fcntl.flock(lock, fcntl.LOCK_EX)
        watch, start = Watch(), look()
        yield watch
        watch.disturbance = disturbance_of([use_since(start)])
