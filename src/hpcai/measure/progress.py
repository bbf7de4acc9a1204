"""What a measurement tells while it runs: lines of progress, each epoch, and that its claim is still held."""

import logging
import sys
import time
from pathlib import Path

from hpcai.config.runs import RunPlan
from hpcai.measure.claim import REFRESH_S
from hpcai.records import EpochRecord

logger = logging.getLogger(__name__)


def say(plan: RunPlan, what: str) -> None:
    """Tell one line of progress on the terminal and in the log."""
    logger.info("%s: %s", plan.run_id, what)
    print(f"[{plan.kind} {plan.run_id}] {what}", file=sys.stderr, flush=True)


class Progress:
    """Shows each epoch when it is done, and keeps the claim fresh."""

    def __init__(self, plan: RunPlan, epochs: Path, claim: Path) -> None:
        self._plan, self._epochs, self._claim = plan, epochs, claim
        self._shown, self._read_bytes, self._claimed_s = 0, 0, time.monotonic()

    def __call__(self) -> None:
        """Look whether there is anything new."""
        # Called several times a second beside a timed run: nothing is touched or read that need not be.
        if time.monotonic() - self._claimed_s > REFRESH_S:
            self._claim.touch()
            self._claimed_s = time.monotonic()
        size_bytes = self._epochs.stat().st_size if self._epochs.exists() else 0
        if size_bytes == self._read_bytes:
            return
        self._read_bytes = size_bytes
        done = read_epochs(self._epochs)
        for epoch in done[self._shown :]:
            quality = "" if epoch.quality is None else f", quality {epoch.quality:.4f}"
            target = f" (target {self._plan.benchmark.target.value:g})" if quality else ""
            say(self._plan, f"epoch {epoch.epoch}: loss {epoch.train_loss:.4f}{quality}{target}, {epoch.train_s:.1f} s")
        self._shown = len(done)


def read_epochs(path: Path) -> tuple[EpochRecord, ...]:
    """Read the epochs written so far; a last line that is still being written is left out."""
    if not path.exists():
        return ()
    lines = path.read_text().split("\n")[:-1]
    return tuple(EpochRecord.model_validate_json(line) for line in lines)
