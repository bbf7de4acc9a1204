"""Runs in progress, whoever started them, and their progress."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.run_folders import present_folders
from hpcai.core.messages import Message
from hpcai.measure.claim import CLAIM, live_holder
from hpcai.measure.claim_holder import Holder
from hpcai.slurm.queue import QueuedJob, queued_jobs

WAITS = Message("live.waits", "waits for {count} under way: {what}")
END_IT = Message("live.end_it", "{words}; instead of waiting, you can end leftovers of an earlier start: {remedies}")

POLL_S = 5.0
SAY_AGAIN_S = 60.0
SHOWN = 3
"""Number of awaited items named."""
ASKED_AT_ONCE = 8
"""Each holder in a Slurm job takes one call of squeue, which mostly waits."""


@dataclass(frozen=True)
class LiveRun:
    """A folder with an active supervisor."""

    name: str
    """Relative to the results folder."""
    holder: Holder

    @property
    def words(self) -> str:
        """Description of the run and its supervisor."""
        return f"{self.name} ({self.holder.words})"


@dataclass(frozen=True)
class AtWork:
    """Something to wait for."""

    words: str
    remedy: str = ""
    """The command that ends it; blank if unknown."""


def live_runs(results: Path) -> list[LiveRun]:
    """Return the running measurements of a results folder; only claimed folders are checked."""
    claimed = [name for name in present_folders(results) if (results / name / CLAIM).exists()]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        holders = list(pool.map(lambda name: live_holder(results / name), claimed))
    return [LiveRun(name, holder) for name, holder in zip(claimed, holders, strict=True) if holder is not None]


def wait_until_idle(
    results: Path,
    folder: Path,
    say: Callable[[str], object],
    longest_s: float | None = None,
    others: Callable[[], Sequence[AtWork]] = tuple,
) -> None:
    """Wait until no run of a results folder is active, and no Slurm job of its workflow is queued or running.

    Parameters
    ----------
    results
        Results folder.
    folder
        The workflow's working folder, from which its Slurm jobs were submitted.
    say
        Called with the reason for waiting and how to end it: at once, and once a minute.
    longest_s
        Longest wait [s]; None for no limit.
    others
        Returns further items to wait for.
    """
    queue: tuple[QueuedJob, ...] = ()

    def look() -> list[AtWork]:
        nonlocal queue
        answer = queued_jobs(folder)
        # A missing answer from Slurm does not mean that its jobs have ended.
        queue = queue if answer is None else answer
        return [*_at_work(live_runs(results), queue), *others()]

    wait_until_none(look, say, longest_s)


def _at_work(live: Sequence[LiveRun], queue: Sequence[QueuedJob]) -> Iterator[AtWork]:
    claiming = {run.holder.slurm_job for run in live}
    for run in live:
        yield AtWork(run.words, run.holder.remedy)
    for job in queue:
        if job.job_id not in claiming:
            yield AtWork(f"Slurm job {job.job_id} ({job.state}: {job.work})", job.remedy)


def wait_until_none(
    look: Callable[[], Sequence[AtWork]], say: Callable[[str], object], longest_s: float | None = None
) -> None:
    """Check repeatedly until nothing is found any more.

    Parameters
    ----------
    look
        Returns the items to wait for.
    say
        Called with these and how to end them: at once, and once a minute.
    longest_s
        Longest wait [s]; None for no limit.
    """
    started = time.monotonic()
    said: float | None = None
    while found := look():
        now = time.monotonic()
        if said is None or now - said >= SAY_AGAIN_S:
            say(_say_waiting(found))
            said = now
        if longest_s is not None and now - started >= longest_s:
            return
        time.sleep(POLL_S if longest_s is None else min(POLL_S, longest_s - (now - started)))


def _say_waiting(found: Sequence[AtWork]) -> str:
    words = WAITS(count=len(found), what=_first([one.words for one in found]))
    # One command ends all jobs of one start of the workflow.
    remedies = list(dict.fromkeys(f"`{one.remedy}`" for one in found if one.remedy))
    return END_IT(words=words, remedies=_first(remedies)) if remedies else words


def _first(parts: Sequence[str]) -> str:
    return "; ".join([*parts[:SHOWN], *(["..."] if len(parts) > SHOWN else [])])
