"""The kind ``power``: power and energy of a profiled run, by each meter of its node."""

from functools import partial
from typing import TYPE_CHECKING

from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.profiles.instrument import Instrument, Missing
from hpcai.profiles.kind import Kind
from hpcai.profiles.power.meters import WHAT_GIVES_IT, find_power_meters, metered

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

NO_METER = Message("power.no_meter", "{reasons}. What would give it: {needs}")


def _find(plan: RunPlan) -> Instrument | Missing:
    meters, reasons = find_power_meters(
        redfish=plan.machine.profilers.redfish, find_hosts=partial(hosts_of, Ranks.of(plan))
    )
    if not meters:
        return Missing(NO_METER(reasons="; ".join(reasons), needs="; ".join(WHAT_GIVES_IT.values())))
    return Instrument("power meters", ("power_*.csv",), beside=lambda raw: metered(meters, raw))


def _read(profile: "Profile") -> "dict[str, pd.DataFrame]":
    from hpcai.profiles.power.views import power_views

    return power_views(profile)


PROFILE = Kind(
    place=5,
    tables=("power",),
    steps="power_steps",
    find_instrument=_find,
    read=_read,
)
