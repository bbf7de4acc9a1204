"""The BLAS that an HPL is linked with, as far as the dynamic linker tells, and whether it can be timed by itself.

Rates of another library would predict another HPL: on one processor, libraries differ by more than the model's goal.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.machine.hpl.library import BlasLibrary, name_library
from hpcai.machine.hpl.routines import PANEL_CALLS

BLAS = re.compile(r"^\s*(lib(?:openblas|blis|mkl|blas|f77blas|atlas|essl|armpl|sci_)[\w.+-]*) => (/\S+)", re.MULTILINE)
ROUTINES = (*PANEL_CALLS, "dgemv")
"""Of C's interface (cblas), which the rates are taken of."""
CONTAINERS = frozenset(("apptainer", "singularity", "docker", "podman", "podman-hpc", "shifter", "enroot", "ch-run"))
"""Programs whose words name files of another system."""
UNKNOWN = Message(
    "linked.unknown",
    "not measured: the BLAS of {program} is not known (it is linked statically, a script, or in a container), and "
    "rates of another one would not predict it",
)
NOT_BY_ITSELF = Message(
    "linked.not_by_itself",
    "not measured: {library}, which HPL is linked with, needs other libraries beside it or has no cblas, so its "
    "routines cannot be timed by themselves",
)


def blas_of(program: Path) -> tuple[str, str]:
    """Return name and path of the BLAS that a program loads; blank if it was linked statically, or is a script."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    found = BLAS.search(listed)
    return (found[1], found[2]) if found else ("", "")


def blas_of_build(program: str, path: str) -> BlasLibrary:
    """Return the BLAS of an HPL that was built here, with what it needs on this processor; a reason if none is known.

    Parameters
    ----------
    program
        Path of the HPL.
    path
        Of its BLAS; blank if it is linked statically.
    """
    return _timed(BlasLibrary.at(path)) if path else BlasLibrary(reason=UNKNOWN(program=Path(program).name))


def blas_of_command(words: Sequence[str]) -> BlasLibrary:
    """Return the BLAS of a site's own HPL, the last plain word of its command; a reason if it is not known.

    What the library needs on this processor is left to the site, so its rates are taken without it, too.
    """
    plain = [word for word in words if not word.startswith("-") and "{" not in word]
    contained = any(word.startswith("--container") or Path(word).name in CONTAINERS for word in words)
    program = None if contained else shutil.which(plain[-1])
    path = blas_of(Path(program))[1] if program else ""
    if not path:
        return BlasLibrary(reason=UNKNOWN(program=Path(plain[-1]).name))
    path = str(Path(path).resolve())
    return _timed(BlasLibrary(path, name_library(path)))


def _timed(blas: BlasLibrary) -> BlasLibrary:
    """Return a library with the reason why its routines cannot be timed; it is the BLAS of HPL nevertheless."""
    try:
        library = ctypes.CDLL(blas.path)
    except OSError:
        return replace(blas, reason=NOT_BY_ITSELF(library=blas.name))
    complete = all(hasattr(library, f"cblas_{name}") for name in ROUTINES)
    return blas if complete else replace(blas, reason=NOT_BY_ITSELF(library=blas.name))
