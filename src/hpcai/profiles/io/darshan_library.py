"""Darshan's run-time library: find it, and attach it to ranks that are not MPI programs.

Tested with Darshan 3.5.0 (its documentation: darshan-runtime, "Instrumenting non-MPI applications" and
"Configuration").
"""

import ctypes.util
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "libdarshan.so"
MODULE_VARIABLES = ("DARSHAN_ROOT", "DARSHAN_DIR", "DARSHAN_HOME", "DARSHAN_RUNTIME_ROOT", "DARSHAN_RUNTIME_DIR")
"""Variables that environment modules and Spack set to the library's installation."""
PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/darshan/lib")
JOB_VARIABLE = "HPCAI_DARSHAN_JOB"
CONFIGURATION = """\
MOD_ENABLE DXT_POSIX
MOD_DISABLE HEATMAP
MAX_RECORDS 16384 POSIX,STDIO
MODMEM 64
NAMEMEM 32
APP_EXCLUDE uname,lscpu
NAME_EXCLUDE .* POSIX,STDIO,DXT_POSIX
"""
"""Records only the data: imports of Python and TensorFlow alone would fill the default 1,024 records."""


OWN_NAME = "own_name.sh"
OWN_NAME_SCRIPT = """\
#!/bin/sh
# Darshan names a process's temporary file by user, job and time. Of 200 processes started in pairs, 7 found their file
# there already and wrote no log. So each process is a user of its own.
LOGNAME="${LOGNAME:-$(id -u)}.$$" exec "$@"
"""


@dataclass(frozen=True)
class DarshanLibrary:
    """A libdarshan.so that was found."""

    path: Path

    @property
    def command(self) -> tuple[str, ...]:
        """Command prefix of each rank's program; applied elsewhere, each helper of the launcher would write a log."""
        variables = {
            "LD_PRELOAD": str(self.path),
            "DARSHAN_ENABLE_NONMPI": "1",
            "DARSHAN_LOGPATH": "{raw}/darshan",
            "DARSHAN_CONFIG_PATH": "{raw}/darshan.conf",
            # Darshan groups logs by job number, which it reads from the variable named here.
            "DARSHAN_JOBID": JOB_VARIABLE,
            JOB_VARIABLE: "{job}",
        }
        return ("sh", f"{{raw}}/{OWN_NAME}", "env", *(f"{name}={value}" for name, value in variables.items()))


def find_darshan(setting: str | None, environment: Mapping[str, str] = os.environ) -> DarshanLibrary | str:
    """Find the library by setting, environment module or library path; return the reason as text if there is none."""
    if setting is not None:
        path = Path(os.path.expandvars(setting))
        return DarshanLibrary(path) if path.is_file() else f"profilers.darshan_library: {path} is not a file"
    for place in _places(environment):
        if (place / LIBRARY).is_file():
            return DarshanLibrary(place / LIBRARY)
    known = ctypes.util.find_library("darshan")
    if known:
        return DarshanLibrary(Path(known))
    return f"{LIBRARY} was not found: load Darshan's module, or name it in the machine file (profilers.darshan_library)"


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    for variable in MODULE_VARIABLES:
        if environment.get(variable):
            yield from (Path(environment[variable]) / "lib", Path(environment[variable]) / "lib64")
    for folder in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield Path(folder)
    yield from map(Path, PLACES)


def prepare_darshan(raw: Path, data: Sequence[Path]) -> None:
    """Write the configuration, which includes only the data folders, and what starts a rank; create the log folders.

    An asterisk in a folder name matches any text, such as a node's name.

    Darshan puts a log below YEAR/MONTH/DAY of the process's start and does not create these folders.
    """
    # Darshan compares paths as opened, with links unresolved, and ends a pattern at the first blank.
    named = dict.fromkeys(path for folder in data for path in (folder.absolute(), folder.resolve()))
    folders = "|".join(re.escape(str(path)).replace("\\ ", ".").replace(r"\*", "[^/]*") for path in named)
    (raw / "darshan.conf").write_text(f"{CONFIGURATION}NAME_INCLUDE ^({folders})/ POSIX,STDIO,DXT_POSIX\n")
    (raw / OWN_NAME).write_text(OWN_NAME_SCRIPT)
    for days in (0, 1):
        day = time.localtime(time.time() + days * 86_400)
        (raw / "darshan" / f"{day.tm_year}/{day.tm_mon}/{day.tm_mday}").mkdir(parents=True, exist_ok=True)
