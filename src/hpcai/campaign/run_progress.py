"""Progress of a run; imports nothing heavy, because it is used while runs are timed."""

import calendar
import json
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcai.core.text import say_beside, say_duration
from hpcai.records.files import ATTEMPTS


@dataclass(frozen=True)
class Progress:
    """Progress of a running measurement; None where it has not reported yet."""

    started: bool
    """Whether its launcher has started; before, it prepares or waits for its turn on the node."""
    elapsed_s: float | None = None
    """Time since its attempt was opened, by the wall clock."""
    limit_s: float | None = None
    epoch: int | None = None
    quality: float | None = None
    target: float | None = None
    silent_s: float | None = None
    """Time since rank 0's last heartbeat, by the time of its file."""


def progress_of(folder: Path) -> Progress:
    """Return the progress of the run, or of the slowest instance of the group, in a folder."""
    attempts = [newest for newest in (newest_attempt(own) for own in (folder, *sorted(folder.glob("i*")))) if newest]
    found = [_progress(attempt) for attempt in attempts]
    return min(found, key=lambda one: (one.started, one.epoch or 0), default=Progress(started=False))


def say_progress(progress: Progress) -> str:
    """Describe the progress of a run."""
    limit = f" of at most {say_duration(progress.limit_s)}" if progress.limit_s is not None else ""
    elapsed = f"{say_duration(progress.elapsed_s)}{limit}"
    if not progress.started:
        return f"preparing or waiting; {elapsed}" if progress.elapsed_s is not None else "prepares"
    parts = ["no epoch done yet" if progress.epoch is None else f"epoch {progress.epoch} done"]
    if progress.quality is not None:
        target = f" (target {progress.target:g})" if progress.target is not None else ""
        beside = math.nan if progress.target is None else progress.target
        parts.append(f"quality {say_beside(progress.quality, beside, '{:.4g}'.format)}{target}")
    silent = "" if progress.silent_s is None else f", last progress {say_duration(progress.silent_s)} ago"
    return f"{', '.join(parts)}; {elapsed}{silent}"


def newest_attempt(folder: Path) -> Path | None:
    """Return the most recent attempt: their names begin with the time."""
    return max((path for path in (folder / ATTEMPTS).glob("*") if path.is_dir()), default=None)


def _progress(attempt: Path) -> Progress:
    plan, epoch = _read(attempt / "plan.json"), _last_epoch(attempt / "epochs.jsonl")
    return Progress(
        started=(attempt / "output.log").exists(),
        elapsed_s=_elapsed_s(attempt.name),
        limit_s=_inside(plan, "limits", "run_s"),
        epoch=epoch.get("epoch"),
        quality=epoch.get("quality"),
        target=_inside(plan, "benchmark", "target", "value"),
        silent_s=_age_s(attempt / "heartbeat"),
    )


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON file of a running measurement; a missing or incomplete file reads as empty."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_epoch(path: Path) -> dict[str, Any]:
    """Return the last complete epoch."""
    try:
        lines = path.read_text().split("\n")[:-1]
        found = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _inside(values: dict[str, Any], *keys: str) -> Any:  # noqa: ANN401  a leaf of JSON
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None  # type: ignore[assignment]
    return values


def _elapsed_s(attempt: str) -> float | None:
    stamp = re.match(r"\d{8}T\d{6}Z", attempt)
    return max(time.time() - calendar.timegm(time.strptime(stamp[0], "%Y%m%dT%H%M%SZ")), 0.0) if stamp else None


def _age_s(path: Path) -> float | None:
    try:
        return max(time.time() - path.stat().st_mtime, 0.0)
    except OSError:
        return None
