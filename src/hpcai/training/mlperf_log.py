"""The MLPerf log of a run, in the order that the package's own checker demands (rule sets hpc 1.0.0 to 3.0.0)."""

import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants
from mlperf_logging.mllog.mllog import MLLogger

from hpcai.config.runs import RunPlan
from hpcai.training.chrono import stamp_ms

PACKAGE = Path(__file__).resolve().parents[1]


class MlperfLog:
    """Writes mllog lines on rank 0, and nothing on other ranks.

    The package lacks constants for the benchmarks' names, ``dropout``, ``number_of_*`` and ``eval_error``. Its time
    stamps follow the wall clock, which may be adjusted during a run; ours do not (:func:`stamp_ms`).
    """

    def __init__(self, path: Path, active: bool) -> None:
        log = logging.getLogger(f"mllog:{path}")
        log.propagate = False
        log.setLevel(logging.INFO)
        for handler in list(log.handlers):
            log.removeHandler(handler)
        log.addHandler(logging.FileHandler(path, mode="w") if active else logging.NullHandler())
        # mllog treats root_dir as a regular expression, and logs the caller of `_write`'s caller.
        self._log = MLLogger(logger=log, root_dir=re.escape(str(PACKAGE.parent)), default_stack_offset=3)

    def submission(self, plan: RunPlan, mlperf_name: str, cache_cleared: bool) -> None:
        """Log the submitter, the submission, and whether the caches were cleared."""
        event, submission = self._log.event, plan.submission
        self._write(event, constants.SUBMISSION_BENCHMARK, mlperf_name)
        self._write(event, constants.SUBMISSION_ORG, submission.org)
        self._write(event, constants.SUBMISSION_DIVISION, submission.division)
        self._write(event, constants.SUBMISSION_STATUS, submission.status)
        self._write(event, constants.SUBMISSION_PLATFORM, submission.platform)
        self._write(event, constants.CACHE_CLEAR, cache_cleared)

    def settings(self, plan: RunPlan, samples: tuple[int, int], hyperparameters: dict[str, Any]) -> None:
        """Log seed, scale, numbers of training and evaluation samples, and hyper-parameters."""
        values = {
            constants.SEED: plan.seed,
            "number_of_ranks": plan.point.ranks,
            "number_of_nodes": plan.point.nodes,
            "accelerators_per_node": plan.accelerators_per_node,
            constants.GLOBAL_BATCH_SIZE: plan.global_batch,
            constants.TRAIN_SAMPLES: samples[0],
            constants.EVAL_SAMPLES: samples[1],
        }
        for key, value in (*values.items(), *hyperparameters.items()):
            self._write(self._log.event, key, value)

    def start(self, key: str, epoch: int | None = None) -> None:
        """Log the start of an interval."""
        self._write(self._log.start, key, metadata=_epoch(epoch))

    def stop(self, key: str, epoch: int | None = None) -> None:
        """Log the end of an interval."""
        self._write(self._log.end, key, metadata=_epoch(epoch))

    def quality(self, key: str, value: float, epoch: int) -> None:
        """Log a quality; NaN is omitted, because strict JSON has no NaN."""
        if math.isfinite(value):
            self._write(self._log.event, key, value, _epoch(epoch))

    def end_run(self, success: bool) -> None:
        """Log the end of the run."""
        status = constants.SUCCESS if success else constants.ABORTED
        self._write(self._log.end, constants.RUN_STOP, metadata={constants.STATUS: status})

    def _write(
        self, log: Callable[..., None], key: str, value: object = None, metadata: dict[str, Any] | None = None
    ) -> None:
        log(key, value, metadata=metadata, time_ms=stamp_ms())


def _epoch(number: int | None) -> dict[str, Any] | None:
    return None if number is None else {constants.EPOCH_NUM: number}
