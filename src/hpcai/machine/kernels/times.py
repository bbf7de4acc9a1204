"""Times of a training step's kernels on this machine, in random sizes, for training the regressors."""

import json
import logging
import math
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pandas as pd

from hpcai.config.prediction import KernelFamily
from hpcai.core.errors import ConfigError, LaunchError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.programs import last_words, say_ending
from hpcai.machine.kernels.draft import TimedCase, append_line, has_started, read_cases, read_fingerprint
from hpcai.machine.subprocess_measure import ENDED_BADLY, THIS_PYTHON, measuring_environment
from hpcai.predict.kernels.cases import FAMILIES, INPUTS, KERNELS, sample_cases

logger = logging.getLogger(__name__)
MODULE = "hpcai.machine.kernels.process"
CASE_LIMIT_S = 30.0
"""Time limit per case [s]; a case takes a second at most, so a longer one hangs."""
START_LIMIT_S = 180.0
"""Time limit for starting [s]; libraries may come from a slow file system."""
LOOK_EVERY_S = 0.2
SAY_EVERY_S = 5.0
METHOD = "measured: CPU time, median of the repetitions of the least disturbed of the passes"


def measure_kernels(
    family: KernelFamily, samples: int, seed: int, draft: Path, *, passes: int, python: Sequence[str] = THIS_PYTHON
) -> pd.DataFrame:
    """Measure random cases of all kernels of a family, with one thread, in a separate process.

    All cases are measured in several consecutive passes: a disturbance of seconds or minutes on a shared machine
    affects a case in one pass but not in another. A case that crashes its process or hangs is skipped with its reason,
    and the process restarts after it.

    Parameters
    ----------
    family
        One of :data:`hpcai.predict.kernels.cases.FAMILIES`.
    samples
        Number of cases per kernel.
    seed
        Seed of the random cases.
    draft
        JSON lines with the results so far, one file per pass, numbered from this name; an interrupted measurement
        resumes where it stopped. A draft of another machine, software or seed is restarted.
    passes
        Number of passes.
    python
        Command that runs Python in this environment or in the machine's image.

    Returns
    -------
    pandas.DataFrame
        One row per case: ``kernel``, one column per input (NaN if a kernel has no such size), ``work_flop``,
        ``moved_bytes``, ``cpu_time_s`` (median CPU time of one execution, in the fastest pass), ``cpu_time_min_s``,
        ``repetitions`` (of all passes), ``pass_spread_ratio`` (longest over shortest of the passes' medians),
        ``reason``, ``others_ratio`` (share of the cores used by others in that pass), ``method``, ``source``.

    Raises
    ------
    ConfigError
        If there is no such family or the numbers are not positive.
    LaunchError
        If a measuring process fails outside a case.
    """
    _require(family, samples, seed)
    draft.parent.mkdir(parents=True, exist_ok=True)
    drafts = [draft.with_name(f"{draft.stem}-{number}{draft.suffix}") for number in range(1, passes + 1)]
    for number, one in enumerate(drafts, 1):
        logger.info("kernels of %s: pass %d of %d", family, number, passes)
        _measure_once([*python, "-m", MODULE], (family, samples, seed), one)
    return join_passes([tabulate_times(family, samples, seed, one) for one in drafts])


def _measure_once(program: Sequence[str], asked: tuple[KernelFamily, int, int], draft: Path) -> None:
    family, samples, seed = asked
    options = ["--family", family, "--samples", str(samples), "--seed", str(seed), "--draft", str(draft.absolute())]
    keys = [(kernel, index) for index in range(samples) for kernel in FAMILIES[family]]
    with machine_to_itself(logger.info) as watch:
        while ending := _run([*program, *options], draft, len(keys)):
            _blame_first_missing(ending, keys, draft)
    taken = [_others_ratio(draft), *(node.others_ratio for node in watch.disturbance)]
    _quiet_file(draft).write_text(json.dumps(max((one for one in taken if not math.isnan(one)), default=None)))


def _quiet_file(draft: Path) -> Path:
    return draft.with_suffix(".quiet.json")


def _others_ratio(draft: Path) -> float:
    """Return the share of the cores used by others during a draft's measurement, all starts; NaN: not measured."""
    file = _quiet_file(draft)
    found = json.loads(file.read_text()) if file.exists() else None
    return math.nan if found is None else float(found)


def join_passes(passes: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one row per case from the tables of several passes: the time of the fastest pass.

    A case without a time in any pass keeps a reason.
    """
    rows = pd.concat([one.assign(case=range(len(one))) for one in passes], ignore_index=True)
    order = rows.sort_values(["case", "cpu_time_s"], kind="stable", na_position="last")
    cases = order.groupby("case", sort=True)
    spread = cases["cpu_time_s"].max() / cases["cpu_time_s"].min()
    best = cases.head(1).set_index("case").assign(repetitions=cases["repetitions"].sum(), pass_spread_ratio=spread)
    return best.reset_index(drop=True)


def _require(family: str, samples: int, seed: int) -> None:
    if family not in FAMILIES:
        raise ConfigError(f"kernel family: found {family!r}, expected one of {', '.join(get_args(KernelFamily))}")
    if samples < 1 or seed < 0:
        raise ConfigError(f"kernel samples and seed: found {samples} and {seed}, expected at least 1 and 0")


@dataclass(frozen=True)
class _Ending:
    """How an unfinished process ended."""

    words: str
    in_a_case: bool
    errors: str


def _run(command: Sequence[str], draft: Path, total: int) -> _Ending | None:
    """Run a measuring process; None: it has measured everything."""
    run = str(time.time_ns())
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, "--run", run], env=measuring_environment(), stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            limit = _watch(process, draft, run, total)
        finally:
            process.kill()
            process.wait()
        if process.returncode == 0:
            return None
        errors.seek(0)
        told = errors.read().decode(errors="replace")
        return _Ending(limit or say_ending(process.returncode), has_started(draft, run), told)


def _watch(process: "subprocess.Popen[bytes]", draft: Path, run: str, total: int) -> str:
    """Wait for a process to end, and report its progress; return why it was abandoned, blank if it was not."""
    progress, size, changed_s = _Progress(draft, total), -1, time.monotonic()
    while process.poll() is None:
        time.sleep(LOOK_EVERY_S)
        found = draft.stat().st_size if draft.exists() else 0
        stalled_s = time.monotonic() - changed_s
        if found != size:
            size, changed_s = found, time.monotonic()
            progress.say()
        elif stalled_s > CASE_LIMIT_S:
            limit_s = CASE_LIMIT_S if has_started(draft, run) else START_LIMIT_S
            if stalled_s > limit_s:
                return f"was ended after {limit_s:g} s without a result"
    return ""


class _Progress:
    """Reports every few seconds how many cases are done and how long the rest will take."""

    def __init__(self, draft: Path, total: int) -> None:
        self._draft, self._total = draft, total
        self._first, self._started_s, self._said_s = -1, 0.0, time.monotonic()

    def say(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s < SAY_EVERY_S:
            return
        self._said_s = now_s
        done = len(read_cases(self._draft))
        if done == 0 or self._first < 0:
            self._first, self._started_s = done, now_s
            return
        left = (self._total - done) * (now_s - self._started_s) / max(1, done - self._first)
        logger.info("kernels: %d of %d cases measured, about %.0f s left", done, self._total, left)


def _blame_first_missing(ending: _Ending, keys: Sequence[tuple[str, int]], draft: Path) -> None:
    """Skip the case that ended a process: the first in measuring order without a line."""
    known = read_cases(draft)
    missing = next((key for key in keys if key not in known), None)
    if missing is None or not ending.in_a_case:
        logger.debug("%s: %s", MODULE, ending.errors)
        raise LaunchError(ENDED_BADLY(module=MODULE, ending=ending.words, error=last_words(ending.errors)))
    kernel, index = missing
    reason = f"the process {ending.words}: {last_words(ending.errors)}"
    logger.warning("kernels: case %d of %s is skipped: %s", index, kernel, reason)
    append_line(draft, TimedCase(kernel=kernel, index=index, reason=reason))


def tabulate_times(family: KernelFamily, samples: int, seed: int, draft: Path) -> pd.DataFrame:
    """Return a draft's cases as the table of :func:`measure_kernels`; cases without a line are omitted."""
    known = read_cases(draft)
    origin = read_fingerprint(draft)
    frames = []
    for kernel in FAMILIES[family]:
        cases = sample_cases(kernel, samples, seed)
        lines = [known[kernel, index] for index in range(samples) if (kernel, index) in known]
        cases = cases.iloc[[line.index for line in lines]].reset_index(drop=True)
        costs = {"work_flop": KERNELS[kernel].work_flop(cases), "moved_bytes": KERNELS[kernel].moved_bytes(cases)}
        times = pd.DataFrame([line.model_dump(include=set(_TIMES)) for line in lines], columns=list(_TIMES))
        table = pd.concat([cases.assign(kernel=kernel, **costs), times], axis=1).reindex(columns=list(COLUMNS))
        frames.append(table.astype(_TYPES))
    source = f"{origin.software} on {origin.processor}, {origin.threads} thread" if origin else ""
    quiet = {"others_ratio": _others_ratio(draft)}
    return pd.concat(frames, ignore_index=True).assign(**quiet, method=METHOD, source=source)


_TIMES = ("cpu_time_s", "cpu_time_min_s", "repetitions", "reason")
COLUMNS = ("kernel", *INPUTS, "work_flop", "moved_bytes", *_TIMES)
_NUMBERS = (*INPUTS, "work_flop", "moved_bytes", "cpu_time_s", "cpu_time_min_s")
_TYPES = {**dict.fromkeys(_NUMBERS, "float64"), "repetitions": "int64"}
