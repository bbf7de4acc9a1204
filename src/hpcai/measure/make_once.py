"""Makes what only one process may make at a time, such as a dataset: the second waits, and takes what is there."""

import logging
from collections.abc import Callable
from pathlib import Path

from hpcai.measure.claim import claimed

logger = logging.getLogger(__name__)


def make_once(output: Path, make: Callable[[], object]) -> None:
    """Make a file, unless another process has made it while this one waited for it.

    A job that a lost controller left behind may still be at it.

    Parameters
    ----------
    output
        File that is written last, when all that belongs to it in its folder is complete.
    make
        Writes it.
    """
    with claimed(output.parent, logger.info) as claim:
        if output.exists():
            logger.info("%s: was made by another process in the meantime", output)
            return
        make()
        claim.confirm()
