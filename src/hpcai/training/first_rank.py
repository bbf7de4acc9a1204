"""Puts a tool around the first rank alone: `python -m hpcai.training.first_rank TOOL ARGUMENTS -- PROGRAM ...`.

Each `{control}` in the tool's arguments becomes the ends of two pipes of its own, for commands and for their
acknowledgement; the rank finds its ends in the environment (perf-stat manual, --control).
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence

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


CONTROL = "{control}"
CONTROL_VARIABLE = "HPCAI_TOOL_CONTROL"
"""The rank's ends: COMMANDS,ACKNOWLEDGEMENTS of each tool, separated by blanks."""


def with_control(command: Sequence[str], environment: MutableMapping[str, str]) -> list[str]:
    """Return a command in which each `{control}` is a pair of pipe ends that the tool inherits."""
    own = []

    def connect(word: str) -> str:
        if CONTROL not in word:
            return word
        commands, acknowledgements = os.pipe(), os.pipe()
        for end in (*commands, *acknowledgements):
            os.set_inheritable(end, True)
        own.append(f"{commands[1]},{acknowledgements[0]}")
        return word.replace(CONTROL, f"{commands[0]},{acknowledgements[1]}")

    connected = [connect(word) for word in command]
    if own:
        environment[CONTROL_VARIABLE] = " ".join(own)
    return connected


if __name__ == "__main__":
    command = with_control(command_of_rank(sys.argv[1:], os.environ), os.environ)
    os.execvp(command[0], command)  # noqa: S606  replaced on purpose: signals reach the rank itself
