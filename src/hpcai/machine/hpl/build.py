"""Compile HPL from its authors' source: verify the archive, unpack, configure with the MPI compiler, make.

HPL 2.3 finds MPI's compiler and a BLAS by itself (OpenBLAS, MKL, BLIS and others); ``LDFLAGS`` and ``LD_LIBRARY_PATH``
of the job, which modules set, say where they are.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.errors import DatasetError
from hpcai.core.files import file_sha256
from hpcai.core.messages import Message
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import Archive
from hpcai.data.download import Patience, fetch_archive
from hpcai.machine.hpl.linked import blas_of

logger = logging.getLogger(__name__)
LONGEST_S = 900.0
LIMITS = UnpackLimits(content_bytes=200_000_000, files=20_000)
WEB = ("https://", "http://")
PROGRAM = Path("testing/xhpl")
TIMED = "-DHPL_DETAILED_TIMING"
"""HPL prints the times of its parts."""
NO_COMPILER = Message("build.no_compiler", "{program} is not on the PATH: load the site's MPI, or name its module")
OTHER_SOURCE = Message(
    "build.other_source",
    "{archive}: found sha256 {found}, expected {expected}; name the right one in hpl.source_sha256",
)
NO_SOURCE = Message("build.no_source", "{archive}: no such file; download HPL from its authors, or name its address")
NO_CONFIGURE = Message(
    "build.no_configure", "{archive}: has no script configure, as HPL has since 2.3; build it by hand: hpl.command"
)
FAILED = Message("build.failed", "{command} ended with {status}: {words}; see the log of build_hpl")


class HplBuild(BaseModel):
    """A program that was compiled, or why there is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str
    sha256: str = Field(description="Of the archive, verified before anything was unpacked.")
    program: str = Field(default="", description="Path of xhpl; blank: it was not built.")
    compiler: str = Field(default="", description="What mpicc says of itself.")
    library: str = Field(default="", description="BLAS that the program loads.")
    library_path: str = ""
    build_s: float = 0.0
    reason: str = Field(default="", description="Why there is no program; blank: there is one.")


class _NotBuiltError(Exception):
    """Why HPL could not be built."""


def build_hpl(source: str, folder: Path, sha256: str) -> str:
    """Build HPL; return a :class:`HplBuild` as JSON, with the reason if that failed.

    Parameters
    ----------
    source
        Archive (.tar.gz): a path, or an address to download it from.
    folder
        Folder of the build; emptied first.
    sha256
        Checksum that the archive must have.
    """
    begin = time.monotonic()
    build = HplBuild(source=source, sha256=sha256)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        compiler = _require_compiler()
        root = _unpack(_archive(source, folder, sha256), folder / "source")
        _call(["sh", "./configure", f"CPPFLAGS={os.environ.get('CPPFLAGS', '')} {TIMED}"], root)
        _call(["make", f"-j{len(os.sched_getaffinity(0))}"], root)
        program = (root / PROGRAM).resolve(strict=True)
    except (_NotBuiltError, DatasetError, OSError) as error:
        return build.model_copy(update={"reason": f"HPL was not built: {error}"}).model_dump_json(indent=1)
    name, path = blas_of(program)
    built = {"program": str(program), "compiler": compiler, "library": name, "library_path": path}
    return build.model_copy(update={**built, "build_s": time.monotonic() - begin}).model_dump_json(indent=1)


def _require_compiler() -> str:
    for program in ("mpicc", "make"):
        if shutil.which(program) is None:
            raise _NotBuiltError(NO_COMPILER(program=program))
    asked = subprocess.run(["mpicc", "--version"], capture_output=True, text=True, check=False)
    return (asked.stdout.splitlines() or [""])[0]


def _archive(source: str, folder: Path, sha256: str) -> Path:
    """Return the archive, verified; a download is verified before it has its name."""
    if source.startswith(WEB):
        name = source.rpartition("/")[2]
        wanted = Archive(
            dataset="hpl", file=name, url=source, checksum_algorithm="sha256", checksum=sha256, format="tgz"
        )
        return fetch_archive(wanted, folder, Patience(failures=3, longest_wait_s=10.0))
    archive = Path(os.path.expandvars(source))
    if not archive.is_file():
        raise _NotBuiltError(NO_SOURCE(archive=archive))
    if (found := file_sha256(archive)) != sha256:
        raise _NotBuiltError(OTHER_SOURCE(archive=archive, found=found, expected=sha256))
    return archive


def _unpack(archive: Path, target: Path) -> Path:
    """Return the folder of the script ``configure``."""
    unpack_archive(archive, target, "tgz", LIMITS)
    scripts = [*target.glob("configure"), *target.glob("*/configure")]
    if not scripts:
        raise _NotBuiltError(NO_CONFIGURE(archive=archive))
    for path in scripts[0].parent.rglob("*"):
        # The times of all files are made equal, so that no generated file is made again, by tools that may be missing.
        os.utime(path, (0, 0))
        if path.is_file() and path.read_bytes()[:2] == b"#!":
            path.chmod(0o755)  # unpacking foreign archives makes nothing executable
    return scripts[0].parent


def _call(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, timeout=LONGEST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise _NotBuiltError(f"{' '.join(command)} was ended after {LONGEST_S:g} s") from error
    logger.info("%s: status %d\n%s", " ".join(command), done.returncode, done.stdout)
    if done.returncode:
        words = " ".join(done.stdout.split())[-300:]
        raise _NotBuiltError(FAILED(command=" ".join(command), status=done.returncode, words=words))
