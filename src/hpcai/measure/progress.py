"""What a measurement tells while it runs: lines of progress, and each epoch."""

import logging
import sys
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from hpcai.config.runs import RunPlan
from hpcai.records.run import EpochRecord

logger = logging.getLogger(__name__)


def say(plan: RunPlan, what: str) -> None:
    """Tell one line of progress on the terminal and in the log."""
    logger.info("%s: %s", plan.run_id, what)
    # Whoever listened may be gone: a run outlives the workflow that started it.
    with suppress(OSError):
        print(f"[{plan.kind} {plan.run_id}] {what}", file=sys.stderr, flush=True)


class Progress:
    """Shows each epoch when it is done."""

    def __init__(self, plan: RunPlan, epochs: Path) -> None:
        self._plan, self._epochs = plan, epochs
        self._shown, self._read_bytes = 0, 0

    def __call__(self) -> None:
        """Look whether there is anything new; a file system that does not answer now is asked again next time."""
        # Called several times a second beside a timed run: nothing is read that need not be.
        try:
            size_bytes = self._epochs.stat().st_size
            done = read_epochs(self._epochs) if size_bytes != self._read_bytes else ()
        except OSError:
            return
        self._read_bytes = size_bytes
        for epoch in done[self._shown :]:
            quality = "" if epoch.quality is None else f", quality {epoch.quality:.4f}"
            target = f" (target {self._plan.benchmark.target.value:g})" if quality else ""
            say(self._plan, f"epoch {epoch.epoch}: loss {epoch.train_loss:.4f}{quality}{target}, {epoch.train_s:.1f} s")
        self._shown = max(self._shown, len(done))


def read_epochs(path: Path) -> tuple[EpochRecord, ...]:
    """Read the epochs written so far, up to a line that is still being written or that a dying node left damaged."""
    if not path.exists():
        return ()
    epochs = []
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        try:
            epochs.append(EpochRecord.model_validate_json(line))
        except ValidationError:
            break
    return tuple(epochs)
