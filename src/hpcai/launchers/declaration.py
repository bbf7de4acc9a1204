"""The declaration in a launcher's module: its ``LAUNCHER``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpcai.launchers.ranks import Ranks


@dataclass(frozen=True)
class FirstEnd:
    """How a launcher reports which rank ended first.

    Attributes
    ----------
    pattern
        Searched in the launcher's whole output; groups ``rank`` and ``code`` (128 + n for signal n).
    label
        Prefix of each line of a rank; ``{rank}`` is its number.
    """

    pattern: re.Pattern[str]
    label: str


@dataclass(frozen=True)
class Launcher:
    """One way to start the ranks of a run.

    Attributes
    ----------
    summary
        A few words for the command line's help.
    command
        Returns the words before a rank's program; raises `LaunchError` if it cannot start these ranks.
    programs
        Programs and modules that identify this launcher in a recorded command.
    rank_variables, local_rank_variables
        Environment variables with a rank's number, in the run and on its node; the first one set counts.
    uses_mpi
        Whether the ranks exchange gradients through MPI.
    gloo_option
        Word of a recorded command that shows that ranks exchange gradients over Gloo; blank: they never do.
    default
        Whether it is the default if a workflow profile names no launcher; exactly one launcher is.
    stands_in
        Whether it replaces the default if that is not installed; exactly one launcher does.
    of_batch_system
        Whether it starts steps of the batch system. These may contain other launchers, so its variables and programs
        only count if no other launcher's are found; outside of a job, the batch system chooses nodes and cores.
    failure_words
        Patterns of lines about a rank ended by a signal; group ``reason``.
    first_end
        How it reports which rank ended first, if it does.
    packages
        Python packages that it imports itself, outside of any image of the ranks.
    environment
        Prefixes of variables that control it; records keep these.
    versions
        By name of a library in records: the command whose first line is its version.
    """

    summary: str
    command: Callable[[Ranks], list[str]]
    programs: tuple[str, ...]
    rank_variables: tuple[str, ...]
    local_rank_variables: tuple[str, ...]
    uses_mpi: bool = False
    gloo_option: str = ""
    default: bool = False
    stands_in: bool = False
    of_batch_system: bool = False
    failure_words: tuple[re.Pattern[str], ...] = ()
    first_end: FirstEnd | None = None
    packages: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
