"""One writer per run folder: a claim file that says who is at work and whether he is alive."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from hpcai.errors import RunRefusedError

CLAIM = "claim.json"
STALE_S = 120.0
"""A claim of another host counts as left behind when it was not refreshed for so long."""
REFRESH_S = 10.0
"""How often a holder refreshes its claim."""


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Hold the claim on a run folder while the block runs; yields the claim file, to be refreshed by touching it.

    Raises
    ------
    RunRefusedError
        If a live process holds the claim.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claim = folder / CLAIM
    _take(claim)
    try:
        yield claim
    finally:
        with suppress(FileNotFoundError):
            claim.unlink()


def _take(claim: Path) -> None:
    me = {"host": socket.gethostname(), "pid": os.getpid(), "process_started": _started(os.getpid())}
    # Linked into place whole: nobody can see a claim that is half written.
    draft = claim.with_name(f".{CLAIM}.{socket.gethostname()}.{os.getpid()}")
    draft.write_text(json.dumps(me))
    try:
        for _ in range(3):
            try:
                os.link(draft, claim)
                return
            except FileExistsError:
                _remove_if_left_behind(claim)
        raise RunRefusedError(f"{claim.parent}: another process keeps taking the claim; start one workflow at a time")
    finally:
        draft.unlink()


def _remove_if_left_behind(claim: Path) -> None:
    try:
        holder = json.loads(claim.read_text())
        age_s = time.time() - claim.stat().st_mtime
    except FileNotFoundError:
        return
    except ValueError:
        holder, age_s = {"host": "unknown", "pid": 0, "process_started": None}, 2 * STALE_S
    if is_alive(holder, age_s):
        raise RunRefusedError(
            f"{claim.parent}: process {holder['pid']} on {holder['host']} is at work on this run; "
            f"wait until it has finished, or end it, then start the workflow again"
        )
    with suppress(FileNotFoundError):
        claim.unlink()


def is_alive(holder: dict[str, object], age_s: float) -> bool:
    """Tell whether the holder of a claim lives: by its process here, by the claim's age on another host."""
    if holder["host"] != socket.gethostname():
        return age_s < STALE_S
    return _started(int(str(holder["pid"]))) == holder["process_started"] is not None


def _started(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time() if pid else None
    except psutil.NoSuchProcess:
        return None
