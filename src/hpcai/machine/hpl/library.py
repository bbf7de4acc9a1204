"""The BLAS library that ``hpcc`` loads: its path, name and version."""

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hpcai.core.messages import Message

PACKAGE = "Debian package hpcc"
SONAME = "libblas.so.3"
NO_HPCC = Message(
    "library.no_hpcc",
    "not measured: the program hpcc is not installed; install the {package}, or name a site's own HPL in the machine "
    "file (hpl.command), or HPL's source, which the workflow then compiles (hpl.source): docs/how-to/run_hpl.md",
)


@dataclass(frozen=True)
class BlasLibrary:
    """A BLAS library.

    Attributes
    ----------
    path
        Path with links resolved; blank if none was found.
    name
        Name and, if reported, version.
    reason
        Why there is none; blank if there is one.
    """

    path: str = ""
    name: str = ""
    reason: str = ""


class OfBlas(BaseModel):
    """The BLAS library behind a report of measurements."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    library: str = ""
    library_path: str = ""
    reason: str = ""
    """Why nothing was measured; blank if something was."""


def find_blas() -> BlasLibrary:
    """Return the library that ``hpcc`` would load now, found by the dynamic linker itself."""
    program = shutil.which("hpcc")
    if program is None:
        return BlasLibrary(reason=NO_HPCC(package=PACKAGE))
    try:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return BlasLibrary(reason=f"not measured: the libraries of {program} cannot be listed: {error}")
    path = read_ldd(listed)
    if not path:
        return BlasLibrary(reason=f"not measured: {program} does not load {SONAME}, its BLAS is not known")
    return BlasLibrary(path=path, name=name_library(path))


def read_ldd(listed: str) -> str:
    """Return the resolved path of the BLAS from the output of ``ldd``; blank if absent."""
    found = re.search(rf"^\s*{re.escape(SONAME)} => (\S.*) \(0x[0-9a-f]+\)$", listed, re.MULTILINE)
    return str(Path(found[1]).resolve()) if found else ""


def name_library(path: str) -> str:
    """Return the file name, with the version reported by OpenBLAS or BLIS itself."""
    name = Path(path).name
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return name
    for symbol, words in (("openblas_get_config", ""), ("bli_info_get_version_str", "BLIS ")):
        if hasattr(library, symbol):
            ask = getattr(library, symbol)
            ask.restype = ctypes.c_char_p
            return f"{name} ({words}{ask().decode().strip()})"
    return name
