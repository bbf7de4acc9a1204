"""Software from the machine file: required environment modules, and the image that the ranks run in.

Snakemake joins `module load` and a job's command with a semicolon (9.27: deployment/env_modules.py). The command thus
runs even if a module or the `module` command is missing, and would be measured with other software.

Supervisor and launcher stay outside the image: inside it, a launcher would look for Slurm's commands and
configuration there. Only the program that it starts runs in the image. For the same reason no workflow rule has a
``container:`` of its own. The image provides Python and its packages; the library comes from the checkout that
measures, so the commit in the record is the code that ran. `hpcai.def` builds such an image.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from hpcai.config.machine import Software, require_set
from hpcai.config.runs import RunPlan
from hpcai.core.checkout import source_root
from hpcai.core.errors import LaunchError
from hpcai.core.extras import require
from hpcai.core.messages import Message
from hpcai.launchers.registry import find_launcher
from hpcai.measure.provenance import software_facts

NOT_LOADED = Message(
    "container.not_loaded",
    "software.modules: {missing} not loaded in this job (loaded: {loaded}); give the profile "
    "`software-deployment-method: env-modules`, and name modules as `module list` shows them",
)
LOADED = "LOADEDMODULES"
"""Names with versions, joined by colons, as set by Environment Modules and Lmod."""
PYTHON = "python"
"""The image's own Python, on its PATH."""
START_LIMIT_S = 300
"""Reading an image of some GB from slow shared storage may take this long."""
SIF_HEAD_BYTES, SIF_MAGIC, SIF_UUID = 64, slice(32, 41), slice(48, 64)
"""Offsets in the header of a .sif file (sylabs/sif, pkg/sif/sif.go, "type header")."""


def require_modules(modules: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError unless all these modules are loaded; a name without a version matches any version."""
    loaded = environment.get(LOADED, "").split(":")
    missing = [module for module in modules if not any(_is(module, name) for name in loaded)]
    if missing:
        there = ", ".join(filter(None, loaded)) or "none"
        raise LaunchError(NOT_LOADED(missing=", ".join(missing), loaded=there))


def _is(module: str, loaded: str) -> bool:
    return loaded == module or loaded.startswith(f"{module}/")


def contained(program: Sequence[str], software: Software | None, folders: Sequence[Path] = ()) -> list[str]:
    """Return the command line that runs a program of this environment's Python inside the machine's image.

    Without an image, the command stays the same.

    Parameters
    ----------
    program
        Command line; the image's Python replaces this environment's.
    folders
        Folders that the program uses besides the working folder, present on every node of the run. A folder that does
        not exist yet is bound through its closest existing parent.

    Raises
    ------
    LaunchError
        If the image or its container program is missing.
    """
    if software is None or software.container is None:
        return list(program)
    inside = (PYTHON if word == sys.executable else word for word in program)
    return [*_execute(software, folders), *inside]


def contained_python(software: Mapping[str, object] | None) -> list[str]:
    """Return the command for the Python that computes: this environment's, or that of the machine's image.

    Parameters
    ----------
    software
        `software` of the machine file as plain values; None without an image.

    Raises
    ------
    LaunchError
        If the image or its container program is missing.
    """
    return contained([sys.executable], Software.model_validate(software) if software else None)


def require_training(plan: RunPlan, launcher: str) -> None:
    """Refuse to start ranks if the training packages are missing; an image has its own, except for the launcher.

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
    """Return the versions of the computing software, inside the image if there is one.

    If the image does not answer, a reason replaces the versions.

    Raises
    ------
    LaunchError
        If the image or its container program is missing.
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
    return require_set("software", text, os.path.expandvars(text))


def _present(folder: Path) -> Path:
    """Return a folder, or its closest existing parent."""
    absolute = folder.resolve()
    return next(place for place in (absolute, *absolute.parents) if place.is_dir())


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Return each folder once, without subfolders of others; the root belongs to the image."""
    places = set(folders) - {Path("/")}
    return sorted(place for place in places if not places & set(place.parents))


def _identity(image: Path) -> str | None:
    """Return the build id of a .sif file; an unpacked folder has none."""
    if image.is_dir():
        return None
    with image.open("rb") as file:
        head = file.read(SIF_HEAD_BYTES)
    known = len(head) == SIF_HEAD_BYTES and head[SIF_MAGIC] == b"SIF_MAGIC"
    return str(UUID(bytes=head[SIF_UUID])) if known else None


def _ask(command: Sequence[str]) -> str:
    """Return the output of a program, or its error output if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout if done.returncode == 0 else done.stderr).strip()


if __name__ == "__main__":
    print(json.dumps(software_facts()))
