"""Programs: their location on the PATH, and their exit status."""

import shutil

from hpcai.core.errors import LaunchError


def find_program(name: str) -> str:
    """Return the path of a program that starts ranks.

    Raises
    ------
    LaunchError
        If it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise LaunchError(
            f"{name}: program not found on the PATH; install it or choose another launcher in the profile"
        )
    return found


def shell_status(return_code: int) -> int:
    """Return the exit status in shell convention: 128 + signal for a process ended by a signal."""
    return return_code if return_code >= 0 else 128 - return_code
