"""Tables of the kind ``power``: power and energy of a profiled run, by each meter of its node."""

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.metrics.profiles.energy import power_summary
from hpcai.metrics.scores.trial_scores import WHOLE_NODES
from hpcai.parsers.nvml_samples import WALL, read_nvml_samples
from hpcai.parsers.rapl import read_rapl
from hpcai.parsers.reading import Reading
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view, join_views

METERS: dict[str, Callable[[Path], Reading]] = {
    "power_nvml.csv": read_nvml_samples,
    "power_rapl.csv": read_rapl,
    **dict.fromkeys(("power_amd_smi.csv", "power_slurm.csv", "power_ipmi.csv", "power_redfish.csv"), read_nvml_samples),
}
"""Reader of each meter's file; all but RAPL's have the columns of NVML's."""
OF_ACCELERATORS = ("nvml", "amd_smi")
ONE_NODE = Message("power.one_node", "only one of {nodes} nodes was sampled")
OTHER_NODES = Message("power.other_nodes", "no power: {found} nodes were sampled, the run used {nodes}")


def power_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``power``: one row per meter, covering only the training steps.

    Evaluations between epochs are excluded. A meter of whole nodes that sampled more or fewer than those of the run
    has no power, with a reason; so has one whose file cannot be read, next to others.

    Raises
    ------
    ParseError
        If no meter's file can be read.
    """
    rows, unread = [], []
    for path in profile.files(".csv"):
        try:
            rows.append(_power(profile, path))
        except ParseError as error:
            rows.append(_no_power(profile, path, error))
            unread.append(error)
    if unread and len(unread) == len(rows):
        raise unread[0]
    return {"power": join_views("power", rows)}


def _no_power(profile: Profile, path: Path, error: ParseError) -> pd.DataFrame:
    """Return the row of a meter that wrote nothing usable, such as a header without a sample."""
    row = {"instrument": _instrument(path), "samples": 0, "coverage_ratio": 0.0, "reasons": str(error)}
    return as_view("power", profile.with_identity(pd.DataFrame([row]), path))


def _instrument(path: Path) -> str:
    """Return the name of the meter that wrote a file."""
    return path.stem.removeprefix("power_")


def _power(profile: Profile, path: Path) -> pd.DataFrame:
    reading = METERS[path.name](path)
    instrument = _instrument(path)
    sampled, point = reading.table["device"].nunique(), profile.plan.point
    refused = instrument == WHOLE_NODES and sampled != point.nodes
    partial: list[str] = [OTHER_NODES(found=sampled, nodes=point.nodes)] if refused else []
    if instrument != WHOLE_NODES and point.nodes > 1:
        partial.append(ONE_NODE(nodes=point.nodes))
    if instrument in OF_ACCELERATORS and sampled > point.ranks_per_node:
        partial.append("all accelerators of the node are counted, used or not")
    windows = profile.training_windows_s(wall_clock=reading.facts.get("clock") == WALL)
    stretches = [power_summary(reading.table, instrument, window) for window in windows]
    duration_s = math.fsum(stretch.duration_s for stretch in stretches)
    # A device that answered for a part of a stretch has its own time there: energy over time would miss its power.
    spent_j = math.fsum(stretch.mean_power_w * stretch.duration_s for stretch in stretches)
    reasons = dict.fromkeys([*partial, *reading.reasons, *(one for stretch in stretches for one in stretch.reasons)])
    row = {
        "instrument": instrument,
        "energy_j": math.nan if refused else math.fsum(stretch.energy_j for stretch in stretches),
        "mean_power_w": spent_j / duration_s if duration_s > 0 and not refused else math.nan,
        "duration_s": duration_s,
        "samples": sum(stretch.samples for stretch in stretches),
        "coverage_ratio": reading.coverage_ratio,
        "reasons": "; ".join(reasons),
    }
    return as_view("power", profile.with_identity(pd.DataFrame([row]), path))
