"""What a launcher's module declares: its ``LAUNCHER``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpcai.launchers.ranks import Ranks


@dataclass(frozen=True)
class FirstEnd:
    """How a launcher tells which rank ended first.

    Attributes
    ----------
    pattern
        Matches this in all of the launcher's output; groups ``rank`` and ``code`` (128 + n for signal n).
    label
        What the launcher puts before each line of a rank; ``{rank}`` stands for its number.
    """

    pattern: re.Pattern[str]
    label: str


@dataclass(frozen=True)
class Launcher:
    """One way to start the ranks of a run.

    Attributes
    ----------
    summary
        What it is, in a few words for the command line's help.
    command
        Returns the words to put before a rank's program; `LaunchError` if it cannot start these ranks.
    programs
        Programs and modules by which a recorded command is recognised as one of this launcher.
    rank_variables, local_rank_variables
        Environment variables that tell a rank its number, in the run and on its node; the first that is set counts.
    uses_mpi
        Whether the ranks exchange gradients through MPI.
    gloo_option
        Word of a recorded command that tells that the ranks exchange gradients over Gloo; blank: they never do.
    default
        Whether it is used where a profile of the workflow names no launcher; one launcher is.
    stands_in
        Whether it is used in the place of the default one where that is not installed; one launcher does.
    of_batch_system
        Whether it starts steps of the batch system. These may hold other launchers, so that its variables and programs
        count where no other's are found; outside of a job the batch system chooses nodes and cores.
    failure_words
        Patterns of a line that tells how a rank ended by a signal; group ``reason``.
    first_end
        How it tells which rank ended first, if it does.
    packages
        Python packages that it imports itself, outside of any image of the ranks.
    environment
        Beginnings of the names of variables that steer it; records keep them.
    versions
        By the name of a library in records: the command whose first line is its version.
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
