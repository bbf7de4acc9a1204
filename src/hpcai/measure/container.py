"""Software of the machine file: environment modules that have to be loaded, and the image that the ranks run in.

Snakemake joins `module load` and a job's command with a semicolon (9.27: deployment/env_modules.py): the command also
runs where a module is missing, or the `module` command itself, and would be measured with other software.

The supervisor and the launcher stay outside of the image: a launcher called inside would look there for Slurm's
commands and configuration, so only what it starts is put into the image. For the same reason no rule of the workflow
has a ``container:`` of its own. The image brings Python and its packages; the library comes from the checkout that
measures, so that the commit in the record is the code that ran. `hpcai.def` builds such an image.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from hpcai.config.machine import Software
from hpcai.config.runs import RunPlan
from hpcai.core.errors import LaunchError
from hpcai.core.extras import require
from hpcai.core.messages import Message
from hpcai.launchers.registry import find_launcher
from hpcai.measure.provenance import software_facts, source_root

NOT_LOADED = Message(
    "container.not_loaded",
    "software.modules: {missing} not loaded in this job (loaded: {loaded}); give the profile "
    "`software-deployment-method: env-modules`, and name modules as `module list` shows them",
)
LOADED = "LOADEDMODULES"
"""Names with versions, joined by colons, kept by Environment Modules and by Lmod."""
PYTHON = "python"
"""The image's own Python, by its PATH."""
START_LIMIT_S = 300
"""An image of some GB may have to be read from slow shared storage."""
SIF_HEAD_BYTES, SIF_MAGIC, SIF_UUID = 64, slice(32, 41), slice(48, 64)
"""Places in the head of a .sif file (sylabs/sif, pkg/sif/sif.go, "type header")."""


def require_modules(modules: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError unless all these modules are loaded; a name without a version stands for any version."""
    loaded = environment.get(LOADED, "").split(":")
    missing = [module for module in modules if not any(_is(module, name) for name in loaded)]
    if missing:
        there = ", ".join(filter(None, loaded)) or "none"
        raise LaunchError(NOT_LOADED(missing=", ".join(missing), loaded=there))


def _is(module: str, loaded: str) -> bool:
    return loaded == module or loaded.startswith(f"{module}/")


def contained(program: Sequence[str], software: Software | None, folders: Sequence[Path] = ()) -> list[str]:
    """Return the command line that runs a program of this environment's Python inside the machine's image.

    The same program if the machine names no image.

    Parameters
    ----------
    program
        Command line; this environment's Python in it becomes the image's.
    folders
        What the program reads and writes besides the working folder, there on every node that it runs on. A folder
        that is yet to be made is reached through the closest one that is there.

    Raises
    ------
    LaunchError
        If the image or the program that runs it is not there.
    """
    if software is None or software.container is None:
        return list(program)
    inside = (PYTHON if word == sys.executable else word for word in program)
    return [*_execute(software, folders), *inside]


def contained_python(software: Mapping[str, object] | None) -> list[str]:
    """Return the command that is the Python of what computes: this environment's, or that of the machine's image.

    Parameters
    ----------
    software
        `software` of the machine file as plain values; None: there is no image.

    Raises
    ------
    LaunchError
        If the image or the program that runs it is not there.
    """
    return contained([sys.executable], Software.model_validate(software) if software else None)


def require_training(plan: RunPlan, launcher: str) -> None:
    """Refuse to start ranks where what trains is not installed; an image brings its own, but for the launcher.

    Raises
    ------
    MissingExtraError
        If a package of the extra `train` is missing.
    """
    software = plan.machine.software
    require(*find_launcher(launcher).packages)
    if software is None or software.container is None:
        require("tensorflow", "keras", *([] if plan.point.engine == "tensorflow" else [plan.point.engine]))


def computing_software(software: Software | None) -> dict[str, str]:
    """Return the versions of what computes: of the image that the ranks run in, if there is one.

    An image that does not answer leaves a reason instead of versions.

    Raises
    ------
    LaunchError
        If the image or the program that runs it is not there.
    """
    if software is None or software.container is None:
        return software_facts()
    image = _expanded(software.container)
    facts = {"container": image, "container_runtime": _ask([software.container_command, "--version"])}
    identity = _identity(Path(image))
    if identity:
        facts["container_id"] = identity
    answer = _ask(contained([sys.executable, "-m", "hpcai.measure.container"], software))
    try:
        return {**json.loads(answer), **facts}
    except ValueError:
        return {**facts, "container_software": f"not known, the image answered: {answer[-300:]}"}


def _execute(software: Software, folders: Sequence[Path]) -> list[str]:
    image = _expanded(str(software.container))
    if not Path(image).exists():
        raise LaunchError(
            f"software.container: found no {image}, expected the machine's image; "
            f"build it with `{software.container_command} build {image} envs/hpcai.def`, or leave the key out"
        )
    program = shutil.which(software.container_command)
    if program is None:
        raise LaunchError(
            f"software.container_command: found no program {software.container_command} on the PATH, which the image "
            f"{image} needs; add its module to software.modules, or leave software.container out"
        )
    code = source_root()
    reached = [Path.cwd(), *folders, *([code] if code else [])]
    binds = [word for folder in _distinct(map(_present, reached)) for word in ("--bind", str(folder))]
    options = [_expanded(option) for option in software.container_options]
    path = ["env", f"PYTHONPATH={code / 'src'}"] if code else []
    return [program, "exec", "--pwd", str(Path.cwd()), *binds, *options, str(Path(image).resolve()), *path]


def _expanded(text: str) -> str:
    expanded = os.path.expandvars(text)
    if "$" in expanded:
        raise LaunchError(
            f"software: found {text!r} with a variable that is not set, expected one of the job's environment; "
            "set it, or write the value into the machine file"
        )
    return expanded


def _present(folder: Path) -> Path:
    """Return a folder, or the closest one above it that is there."""
    absolute = folder.resolve()
    return next(place for place in (absolute, *absolute.parents) if place.is_dir())


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Return each folder once, without those that another one holds; the root is the image's own."""
    places = set(folders) - {Path("/")}
    return sorted(place for place in places if not places & set(place.parents))


def _identity(image: Path) -> str | None:
    """Return the number that a .sif file was given when it was built; an unpacked folder has none."""
    if image.is_dir():
        return None
    with image.open("rb") as file:
        head = file.read(SIF_HEAD_BYTES)
    known = len(head) == SIF_HEAD_BYTES and head[SIF_MAGIC] == b"SIF_MAGIC"
    return str(UUID(bytes=head[SIF_UUID])) if known else None


def _ask(command: Sequence[str]) -> str:
    """Return what a program prints; its complaint if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout if done.returncode == 0 else done.stderr).strip()


if __name__ == "__main__":
    print(json.dumps(software_facts()))
