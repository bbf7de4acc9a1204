"""The BLAS library that ``hpcc`` loads: its path, name and version, and what it needs on this processor.

An OpenBLAS takes a processor that is newer than itself for one without AVX: on an Intel Xeon of 2023, Debian's 0.3.21
multiplies matrices at a quarter of the rate. Then it is told which of its kernels to use.
"""

import ctypes
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hpcai.core.messages import Message
from hpcai.core.processor import processor_facts

logger = logging.getLogger(__name__)

PACKAGE = "Debian package hpcc"
SONAME = "libblas.so.3"
NO_HPCC = Message(
    "library.no_hpcc",
    "not measured: the program hpcc is not installed; install the {package}, or name a site's own HPL in the machine "
    "file (hpl.command), or HPL's source, which the workflow then compiles (hpl.source): docs/how-to/run_hpl.md",
)


CORE_TYPE = "OPENBLAS_CORETYPE"
WITHOUT_AVX = frozenset((
    "Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom",
    "Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano",
))  # fmt: skip
"""OpenBLAS's kernels for x86 processors before AVX."""
KERNELS = (("avx512bw", "SkylakeX"), ("avx2", "Haswell"))
"""The first kernel whose instructions a processor has; every OpenBLAS for several processors since 2017 has both."""
OLD_KERNEL = Message(
    "library.old_kernel",
    "{name} takes this processor for one without AVX; HPL and the rates of its parts run with {variable}={kernel}",
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
    environment
        Variables that it needs on this processor.
    """

    path: str = ""
    name: str = ""
    reason: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, path: str) -> "BlasLibrary":
        """Return the library in a file; its name says which variables it needs on this processor."""
        name = name_library(path)
        kernel = newer_kernel(name, processor_facts().get("flags", "").split())
        if not kernel or CORE_TYPE in os.environ:
            return cls(path, name)
        logger.warning(OLD_KERNEL(name=name, variable=CORE_TYPE, kernel=kernel))
        variables = {CORE_TYPE: kernel}
        asked = [sys.executable, "-m", __name__, path]  # what it takes the processor for is fixed when it is loaded
        named = subprocess.run(asked, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        return cls(path, f"{named.stdout.strip() or name}, {CORE_TYPE}={kernel}", environment=variables)


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
    return BlasLibrary.at(path)


def newer_kernel(name: str, flags: Collection[str]) -> str:
    """Return the kernel that an OpenBLAS should use, if the one that it chose has no AVX and the processor does.

    Parameters
    ----------
    name
        Of `name_library`.
    flags
        Of the processor, as the kernel names its instructions.
    """
    if not WITHOUT_AVX & set(name.replace(")", " ").split()):
        return ""
    return next((kernel for flag, kernel in KERNELS if flag in flags), "")


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


if __name__ == "__main__":
    print(name_library(sys.argv[1]))
