"""Made-up rounds for the tests of imported results, and the package's own scores of their folders."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_logging.result_summarizer import result_summarizer as package
from unit.mlperf_hpc.log_factory import START_MS, log_text, point, system_json, text_of, write_tree

from hpcai.mlperf_hpc.analysis.results_folder import Tables, import_tables, read_rounds

FIVE = (300.0, 100.0, 140.0, 120.0, 200.0)
"""Lengths of an epoch [s]: five runs of four epochs, the second the fastest."""
MISSED = [0.5, 0.6, 0.7, 0.8]
"""Qualities of a DeepCAM run that misses its target."""


def deepcam_logs(epochs_s: Sequence[float] = FIVE, missed: Sequence[int] = (), **settings: Any) -> list[str]:
    """Return logs of runs with these lengths of an epoch; those at the places of ``missed`` miss the target."""
    return [
        log_text("deepcam", epoch_s=epoch_s, seed=place + 1, scores=MISSED if place in missed else None, **settings)
        for place, epoch_s in enumerate(epochs_s)
    ]


def run_time_s(epoch_s: float) -> float:
    """Return run_stop - run_start of such a log: 30 s of staging, 4 epochs, 1 s more."""
    return 30 + 4 * epoch_s + 1


def write_deepcam(folder: Path, logs: Sequence[str], **arguments: Any) -> Path:
    """Write DeepCAM logs into a tree."""
    return write_tree(folder, benchmark="deepcam", logs=logs, description=system_json(submitter="ORG"), **arguments)


def write_power(place: Path, powers_w: Sequence[float]) -> None:
    """Write next to each run's log a node that draws a constant power, and a switch of 10 W."""
    for number, power_w in enumerate(powers_w, start=1):
        folder = place / "power" / f"result_{number}"
        folder.mkdir(parents=True)
        times = (START_MS, START_MS + 60_000)
        events = [
            point(times[0], "power_measurement_start", None),
            point(times[1], "power_reading", power_w),
            point(times[1], "power_measurement_stop", None),
        ]
        (folder / "node_1.txt").write_text(text_of(events))
        (folder / "sw_1.txt").write_text(text_of([point(times[0], "interconnect_power_est", 10.0)]))


def tables_of(folder: Path, name: str = "v2.0") -> Tables:
    """Return the tables of one imported round."""
    return import_tables(read_rounds([folder], name=name))


def strong_by_package(place: Path, rule_set: str = "2.0.0") -> tuple[float | None, float | None]:
    """Return the package's time to train [min] and energy [J] of a folder of logs."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        time_min, energy_j, _ = package._compute_strong_score_standalone(
            place.name, "machine", package._has_power(str(place)), str(place), "hpc", rule_set
        )
    return time_min, energy_j


def weak_by_package(place: Path, rule_set: str = "2.0.0") -> Mapping[str, float]:
    """Return the package's time for all [min], number of models and instance scale of a folder of logs."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        scores, _ = package._compute_weak_score_standalone(place.name, "machine", False, str(place), "hpc", rule_set)
    return {name.partition(":")[2]: value for name, value in scores.items()}
