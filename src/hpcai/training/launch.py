"""horovodrun with our rendezvous: `python -m hpcai.training.launch -np 2 --gloo PROGRAM ...`, on this node only.

horovodrun's own rendezvous listens on all networks. It also imports TensorFlow in a separate process, only to learn
whether Horovod was built with Gloo. That takes longer than the rest of its work; the ranks find out themselves when
they join.
"""

import os
from typing import Any

from hpcai.training.rendezvous import LOOPBACK, SECRET, Rendezvous, new_secret


class LoopbackRendezvous(Rendezvous):
    """The server interface that horovodrun requires."""

    def __init__(self, verbose: int = 0) -> None:  # noqa: ARG002  the signature is Horovod's
        super().__init__(LOOPBACK, os.environ[SECRET])

    def init(self, slots: list[Any]) -> None:
        """Set which ranks meet."""
        self.expect(sorted({slot.hostname for slot in slots}), slots[0].local_size)


def main() -> None:
    """Run horovodrun's command line."""
    # Import only here: the process that Horovod spawns for each rank imports this module again.
    from horovod.runner import gloo_run, launch
    from horovod.runner.common.util import env

    os.environ[SECRET] = new_secret()
    # Ranks inherit it. horovodrun would put it into their command line, which all users can see.
    env.IGNORE_REGEXES.add(SECRET)
    gloo_run.RendezvousServer = LoopbackRendezvous
    launch.gloo_built = _assume_gloo
    launch.run_commandline()


def _assume_gloo(verbose: bool = False) -> bool:  # noqa: ARG001  the signature is Horovod's
    return True


if __name__ == "__main__":
    main()
