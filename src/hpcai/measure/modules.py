"""Environment modules: whether those of the machine file are loaded.

Snakemake joins `module load` and a job's command with a semicolon (9.27: deployment/env_modules.py): the command also
runs where a module is missing, or the `module` command itself, and would be measured with other software.
"""

import os
from collections.abc import Mapping, Sequence

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message

NOT_LOADED = Message(
    "modules.not_loaded",
    "software.modules: {missing} not loaded in this job (loaded: {loaded}); give the profile "
    "`software-deployment-method: env-modules`, and name modules as `module list` shows them",
)

LOADED = "LOADEDMODULES"
"""Names with versions, joined by colons, kept by Environment Modules and by Lmod."""


def require_modules(modules: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError unless all these modules are loaded; a name without a version stands for any version."""
    loaded = environment.get(LOADED, "").split(":")
    missing = [module for module in modules if not any(_is(module, name) for name in loaded)]
    if missing:
        there = ", ".join(filter(None, loaded)) or "none"
        raise LaunchError(NOT_LOADED(missing=", ".join(missing), loaded=there))


def _is(module: str, loaded: str) -> bool:
    return loaded == module or loaded.startswith(f"{module}/")
