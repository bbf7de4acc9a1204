"""Programs on the PATH."""

import shutil

from hpcai.core.errors import LaunchError


def find_program(name: str) -> str:
    """Return the path of a program that ranks are started with.

    Raises
    ------
    LaunchError
        If it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise LaunchError(f"{name}: no such program on the PATH; install it or choose another launcher in the profile")
    return found
