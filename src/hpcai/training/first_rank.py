"""Run a tool around the first rank only: `python -m hpcai.training.first_rank TOOL ARGUMENTS -- PROGRAM ...`."""

import os
import sys
from collections.abc import Mapping, Sequence

from hpcai.core.errors import LaunchError
from hpcai.launchers.registry import rank_of


def command_of_rank(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return a rank's command: tool and program on the first rank, only the program on all others.

    Raises
    ------
    LaunchError
        If no ``--`` separates tool and program.
    """
    if "--" not in arguments:
        raise LaunchError(f"first_rank: found {list(arguments)}, expected TOOL ARGUMENTS -- PROGRAM ARGUMENTS")
    cut = list(arguments).index("--")
    tool, program = list(arguments[:cut]), list(arguments[cut + 1 :])
    return [*tool, *program] if rank_of(environment) == 0 else program


if __name__ == "__main__":
    command = command_of_rank(sys.argv[1:], os.environ)
    os.execvp(command[0], command)  # noqa: S606  replaced on purpose: signals reach the rank itself
