"""Power and energy of a profiled run, by each meter that its node had."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from hpcai.characterise.profile import Profile
from hpcai.characterise.views import as_view, join_views
from hpcai.metrics.energy import power_summary
from hpcai.parsers.nvml_samples import read_nvml_samples
from hpcai.parsers.rapl import read_rapl
from hpcai.parsers.reading import Reading

METERS: dict[str, Callable[[Path], Reading]] = {
    "power_nvml.csv": read_nvml_samples,
    "power_rapl.csv": read_rapl,
    "power_slurm.csv": read_nvml_samples,
}
"""Reader of each meter's file; Slurm's samples have the columns of NVML's."""


def power_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``power``: one row for each meter, over the training steps alone."""
    rows = [_power(profile, path) for path in profile.files(".csv")]
    return {"power": join_views("power", rows)}


def _power(profile: Profile, path: Path) -> pd.DataFrame:
    reading = METERS[path.name](path)
    instrument = path.stem.removeprefix("power_")
    nodes = profile.plan.point.nodes
    partial = [] if nodes == 1 or instrument == "slurm" else [f"only one of {nodes} nodes was sampled"]
    summary = power_summary(reading.table, instrument, profile.steps_window_s(), (*partial, *reading.reasons))
    row = pd.DataFrame([{**asdict(summary), "reasons": "; ".join(summary.reasons)}])
    return as_view("power", profile.with_identity(row, path))
