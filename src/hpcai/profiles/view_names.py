"""Names of the characterisation tables, for programs that read none: the workflow needs them at every start."""

from hpcai.catalogue.profiles import PROFILES

VIEWS_OF_ALL = (
    *("captures", "phases", "exchange_steps", "communication", "messages", "lanes", "overlap", "kernels"),
    *("kernel_names", "counters", "io", "io_workers", "input_stages", "power", "work", "ceilings", "links"),
    *("link_fits", "characterisation", "inconsistencies", "advice"),
)
"""Tables of the characterisation with columns of the table catalogue."""
VIEW_NAMES = tuple(dict.fromkeys([*VIEWS_OF_ALL, *(name for kind in PROFILES.values() for name in kind.columns)]))
"""All tables of the characterisation: those, and those of single kinds (:data:`hpcai.profiles.views.VIEWS`)."""
