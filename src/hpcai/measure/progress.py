"""Progress messages of a running measurement, including each epoch."""

import logging
import sys
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from hpcai.config.runs import RunPlan
from hpcai.core.text import say_beside
from hpcai.records.run import EpochRecord

logger = logging.getLogger(__name__)


def say(plan: RunPlan, what: str) -> None:
    """Write one line of progress to the terminal and the log."""
    logger.info("%s: %s", plan.run_id, what)
    # The terminal may be gone: a run outlives the workflow that started it.
    with suppress(OSError):
        print(f"[{plan.kind} {plan.run_id}] {what}", file=sys.stderr, flush=True)


class Progress:
    """Reports each epoch when it is complete."""

    def __init__(self, plan: RunPlan, epochs: Path) -> None:
        self._plan, self._epochs = plan, epochs
        self._shown, self._read_bytes = 0, 0

    def __call__(self) -> None:
        """Check for new epochs; if the file system does not answer, try again next time."""
        # Called several times per second during a timed run, so avoid unnecessary reads.
        try:
            size_bytes = self._epochs.stat().st_size
            done = read_epochs(self._epochs) if size_bytes != self._read_bytes else ()
        except OSError:
            return
        self._read_bytes = size_bytes
        for epoch in done[self._shown :]:
            target = self._plan.benchmark.target.value
            reached = "" if epoch.quality is None else say_beside(epoch.quality, target, "{:.4f}".format)
            quality = f", quality {reached} (target {target:g})" if reached else ""
            digits = 1 if epoch.train_s >= 1 else 3
            words = f"loss {epoch.train_loss:.4f}{quality}, {epoch.train_s:.{digits}f} s"
            say(self._plan, f"epoch {epoch.epoch}: {words}")
        self._shown = max(self._shown, len(done))


def read_epochs(path: Path) -> tuple[EpochRecord, ...]:
    """Read the complete epochs, ignoring a last line that is incomplete or was damaged by a dying node."""
    if not path.exists():
        return ()
    epochs = []
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        try:
            epochs.append(EpochRecord.model_validate_json(line))
        except ValidationError:
            break
    return tuple(epochs)
