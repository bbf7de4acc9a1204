"""The kind ``io``: reads of a profiled run from shared storage and of the training input, seen by Darshan or the ranks.

Where Darshan is not, ranks count their own read calls and trace their input pipeline.
"""

from typing import TYPE_CHECKING

from hpcai.config.runs import RunPlan
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.profiles.io.darshan_library import find_darshan, prepare_darshan
from hpcai.profiles.kind import Kind
from hpcai.records.input_window import COUNTERS, TOOL, TRACES

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

DARSHAN = "Darshan"


def _find(plan: RunPlan) -> Instrument | Missing:
    library = find_darshan(plan.machine.profilers.darshan_library)
    if isinstance(library, str):
        if plan.machine.profilers.darshan_library is not None:
            return Missing(library)  # named, and not there: nobody wants another tool in silence
        return Instrument(TOOL, (COUNTERS, TRACES), step_profiler="input")
    return Instrument(DARSHAN, ("darshan/*.darshan",), prefix=library.command, before=prepare_darshan)


def _read(profile: "Profile") -> "dict[str, pd.DataFrame]":
    from hpcai.profiles.io.views import io_views

    return io_views(profile)


PROFILE = Kind(
    place=4,
    tables=("io", "io_workers", "input_stages"),
    setting="darshan_library",
    find_instrument=_find,
    read=_read,
)
